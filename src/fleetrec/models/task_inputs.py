"""What models of several tasks over one input share: labels, numbers and slots."""

# Shape suffixes: B samples.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.table_options import TableOptions
from fleetrec.tasks.binary import BinaryTask

TABLE = "factors"


class TaskInputs(nn.Module):
    """The first sparse slots are labels; numbers and the vectors of other slots are the input."""

    def __init__(
        self,
        options: TableOptions,
        *,
        inputs: Inputs,
        num_tasks: int,
        dim: int,
        num_values: int | None = None,
    ) -> None:
        super().__init__()
        labels, slots = inputs.sparse[:num_tasks], inputs.sparse[num_tasks:]
        if len(labels) < num_tasks:
            raise ValueError(
                f"sparse_slots must begin with the {num_tasks} labels, got {len(labels)} slots"
            )
        self._dense = DenseValues(inputs)
        if num_values not in (None, self._dense.width):
            raise ValueError(f"feature_size says {num_values}, the data has {self._dense.width}")
        self.names = tuple(label.removeprefix("label_") for label in labels)
        self.tasks = [
            BinaryTask(label=label, logit=f"logit_{n}", prediction=f"predict_{n}", name=n)
            for label, n in zip(labels, self.names, strict=True)
        ]
        initializer = Initializer(kind="normal", scale=0.1)
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature=slot, table=TABLE) for slot in slots],
            tables=[options.table(TABLE, dim, initializer)] if slots else [],
        )
        self.out_dim = self._dense.width + self.embeddings.out_dim
        if self.out_dim == 0:
            raise ValueError("expected dense or sparse slots after the labels, got none")

    def forward(self, batch: Batch) -> list[Tensor]:
        """Return the parts of the input, to be concatenated."""
        parts = [self._dense.of(batch)] if self._dense.names else []
        return [*parts, self.embeddings(batch).cat()] if self.embeddings.tables else parts

    def outputs(self, logits: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return ``logit_<task>`` and ``predict_<task>`` for the logits of every task."""
        outputs: dict[str, Tensor] = {}
        for name, logit_B1 in zip(self.names, logits, strict=True):
            logit_B = logit_B1.squeeze(1)
            outputs |= {f"logit_{name}": logit_B, f"predict_{name}": torch.sigmoid(logit_B)}
        return outputs
