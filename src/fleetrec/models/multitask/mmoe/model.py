"""Several tasks over shared experts."""

# Shape suffixes: B samples, X input width.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.table_options import TableOptions
from fleetrec.models.task_towers import TaskTowers
from fleetrec.nn.expert_mixture import ExpertMixture
from fleetrec.nn.mlp import Mlp
from fleetrec.tasks.binary import BinaryTask

TABLE = "factors"


class Model(base.Model):
    """MMoE: experts shared by all tasks; each task has its own gate and tower.

    Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018. The first sparse slots are the labels, one for each gate; the
    name of a task is its label without ``label_``.
    """

    class Config(TableOptions):
        """Hyper-parameters of MMoE."""

        feature_size: int | None = Field(
            default=None, gt=0, description="if given, must equal the number of dense values"
        )
        gate_num: int = Field(default=2, gt=0, description="tasks, each with a gate")
        expert_num: int = Field(default=8, gt=0, description="experts")
        expert_size: int = Field(default=16, gt=0, description="width of an expert")
        tower_size: int = Field(default=8, gt=0, description="width of the layer of a task")
        sparse_feature_dim: int = Field(default=9, gt=0, description="width of an embedding")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        labels = inputs.sparse[: config.gate_num]
        if len(labels) < config.gate_num:
            raise ValueError(
                f"sparse_slots must begin with the {config.gate_num} labels that gate_num says, "
                f"got {len(labels)} slots"
            )
        self._names = [label.removeprefix("label_") for label in labels]
        super().__init__(
            tasks=[
                BinaryTask(
                    label=label, logit=f"logit_{name}", prediction=f"predict_{name}", name=name
                )
                for label, name in zip(labels, self._names, strict=True)
            ]
        )
        self._dense = DenseValues(inputs)
        if config.feature_size not in (None, self._dense.width):
            raise ValueError(
                f"feature_size says {config.feature_size}, the data has {self._dense.width}"
            )
        slots = inputs.sparse[config.gate_num :]
        initializer = Initializer(kind="normal", scale=0.1)
        tables = [config.table(TABLE, config.sparse_feature_dim, initializer)] if slots else []
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature=slot, table=TABLE) for slot in slots], tables=tables
        )
        in_dim = self._dense.width + self.embeddings.out_dim
        if in_dim == 0:
            raise ValueError("expected dense or sparse slots after the labels, got none")
        experts = [Mlp(in_dim, (config.expert_size,)) for _ in range(config.expert_num)]
        self.mixture = ExpertMixture(in_dim, experts, num_tasks=config.gate_num)
        self.heads = TaskTowers(
            [Mlp(config.expert_size, (config.tower_size,)) for _ in labels],
            out_dims=[1] * config.gate_num,
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit_<task>`` and ``predict_<task>``, the probability of the label."""
        parts = [self._dense.of(batch)] if self._dense.names else []
        if self.embeddings.tables:
            parts.append(self.embeddings(batch).cat())
        logits = self.heads(self.mixture(torch.cat(parts, dim=1)))
        outputs: dict[str, Tensor] = {}
        for name, logit_B1 in zip(self._names, logits, strict=True):
            logit_B = logit_B1.squeeze(1)
            outputs |= {f"logit_{name}": logit_B, f"predict_{name}": torch.sigmoid(logit_B)}
        return outputs
