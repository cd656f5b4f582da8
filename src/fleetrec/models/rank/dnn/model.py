"""The plain deep click model: pooled embeddings and dense features into one MLP."""

# Shape suffixes: B samples.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.table_options import TableOptions
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.binary import BinaryTask


class Model(base.Model):
    """DNN: an MLP over the sum-pooled embeddings of all slots and the dense features."""

    class Config(TableOptions):
        """Hyper-parameters of DNN."""

        sparse_feature_dim: int = Field(default=9, gt=0, description="width of an embedding")
        fc_sizes: tuple[int, ...] = Field(
            default=(512, 256, 128, 32), description="widths of the hidden layers"
        )
        sparse_inputs_slots: int | None = Field(
            default=None, description="if given, must equal the number of sparse slots"
        )
        dense_input_dim: int | None = Field(
            default=None, description="if given, must equal the width of the dense slots"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        label, *slots = inputs.sparse or ("click",)
        dense = DenseValues(inputs)
        _check_declared("sparse_inputs_slots", config.sparse_inputs_slots, len(inputs.sparse))
        _check_declared("dense_input_dim", config.dense_input_dim, dense.width)
        super().__init__(tasks=[BinaryTask(label=label)])
        self._dense = dense
        table = config.table(
            "SparseFeatFactors", config.sparse_feature_dim, Initializer(scale=0.05)
        )
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature=slot, table=table.name) for slot in slots],
            tables=[table],
        )
        self.mlp = Mlp(self.embeddings.out_dim + self._dense.width, config.fc_sizes)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        dense = [self._dense.of(batch)] if self._dense.names else []
        logit_B = self.mlp.logit_of_parts([self.embeddings(batch).cat(), *dense], self.out)
        return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}


def _check_declared(key: str, declared: int | None, found: int) -> None:
    if declared is not None and declared != found:
        raise ValueError(f"{key} says {declared}, the data set declares {found}")
