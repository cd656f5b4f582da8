"""A linear model and a deep one, trained jointly."""

# Shape suffixes: B samples, X input width.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.fields import click_outputs, label_of
from fleetrec.models.table_options import TableOptions
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.binary import BinaryTask

WIDE = "wide_input"


class Model(base.Model):
    """Wide & Deep: a linear model of the wide inputs and an MLP of the others, added up.

    Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016. The dense slot
    wide_input is wide, other dense slots are deep; sparse slots are both.
    """

    class Config(TableOptions):
        """Hyper-parameters of Wide & Deep."""

        hidden1_units: int = Field(default=75, gt=0, description="width of the first layer")
        hidden2_units: int = Field(default=50, gt=0, description="width of the second layer")
        hidden3_units: int = Field(default=25, gt=0, description="width of the third layer")
        sparse_feature_dim: int = Field(default=9, gt=0, description="width of an embedding")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        super().__init__(tasks=[BinaryTask(label=label_of(inputs))])
        self.slots = inputs.sparse[1:]
        names = {"wide": 1, "deep": config.sparse_feature_dim} if self.slots else {}
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature=slot, table=table, name=f"{table}.{slot}")
                for table in names
                for slot in self.slots
            ],
            tables=[
                config.table(name, dim, Initializer(kind="normal", scale=0.1 if dim > 1 else 0.01))
                for name, dim in names.items()
            ],
        )
        self._wide = DenseValues(inputs, [name for name in inputs.dense if name == WIDE])
        self._deep = DenseValues(inputs, [name for name in inputs.dense if name != WIDE])
        units = (config.hidden1_units, config.hidden2_units, config.hidden3_units)
        num_slots = len(self.slots)
        self.wide = scaled_linear(num_slots + self._wide.width, 1)
        self.mlp = Mlp(num_slots * config.sparse_feature_dim + self._deep.width, units)
        self.out = scaled_linear(self.mlp.out_dim, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        wide_B1 = self.wide(self._inputs(batch, "wide", self._wide))
        deep_B1 = self.out(self.mlp(self._inputs(batch, "deep", self._deep)))
        return click_outputs((wide_B1 + deep_B1).squeeze(1))

    def _inputs(self, batch: Batch, table: str, dense: DenseValues) -> Tensor:
        parts = [dense.of(batch)] if dense.names else []
        if self.slots:
            names = [f"{table}.{slot}" for slot in self.slots]
            parts.append(self.embeddings(batch).cat(names))
        return torch.cat(parts, dim=1)
