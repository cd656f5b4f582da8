"""Deep and cross network."""

# Shape suffixes: B samples, X input width, H last hidden width.

from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.feature_sizes import dim_for, read_feature_sizes
from fleetrec.models.fields import click_outputs, label_of
from fleetrec.models.table_options import TableOptions
from fleetrec.nn.gradient_clip import clip_gradients
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.vector_cross import VectorCross
from fleetrec.tasks.binary import BinaryTask
from fleetrec.tasks.task import Outputs


class Model(base.Model):
    """DCN: a cross network and an MLP in parallel, over all vectors and dense values.

    Wang, Fu, Fu and Wang, "Deep & Cross Network for Ad Click Predictions", ADKDD 2017.
    """

    class Config(TableOptions):
        """Hyper-parameters of DCN."""

        cat_feat_num: Path | None = Field(
            default=None,
            description="file with a slot and its number of ids per line; each slot then has a "
            "table of this size, with a width of 6 times its fourth root",
        )
        sparse_feature_dim: int = Field(
            default=9, gt=0, description="width of an embedding without cat_feat_num"
        )
        cross_num: int = Field(default=2, gt=0, description="number of cross layers")
        dnn_hidden_units: tuple[int, ...] = Field(
            default=(128, 128), description="widths of the hidden layers"
        )
        l2_reg_cross: float = Field(
            default=0.00005, ge=0, description="L2 factor of the cross layers' weights"
        )
        dnn_use_bn: bool = Field(default=False, description="batch normalisation in the MLP")
        clip_by_norm: float = Field(
            default=100.0, gt=0, description="maximum norm of the gradient of a parameter"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        label = label_of(inputs)
        super().__init__(tasks=[BinaryTask(label=label)])
        self.embeddings = _embeddings(config, inputs.sparse[1:])
        self._dense = DenseValues(inputs)
        in_dim = self.embeddings.out_dim + self._dense.width
        self.cross = VectorCross(in_dim, num_layers=config.cross_num)
        self.mlp = Mlp(in_dim, config.dnn_hidden_units, batch_norm=config.dnn_use_bn)
        self.out = scaled_linear(in_dim + self.mlp.out_dim, 1)
        self.l2_reg_cross = config.l2_reg_cross
        clip_gradients(self, max_norm=config.clip_by_norm)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        parts = [self.embeddings(batch).cat()] if self.embeddings.features else []
        x_BX = torch.cat([*parts, *([self._dense.of(batch)] if self._dense.names else [])], dim=1)
        h_BH = torch.cat([self.cross(x_BX), self.mlp(x_BX)], dim=1)
        return click_outputs(self.out(h_BH).squeeze(1))

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean log loss plus the L2 penalty of the cross layers."""
        penalty = torch.stack([weight.square().sum() for weight in self.cross.weights]).sum()
        return super().loss(outputs, batch) + self.l2_reg_cross * penalty


def _embeddings(config: Model.Config, slots: tuple[str, ...]) -> EmbeddingCollection:
    start = Initializer(kind="normal", scale=0.1)
    if config.cat_feat_num is None:
        shared = config.table("factors", config.sparse_feature_dim, start)
        features = [EmbeddedFeature(feature=slot, table=shared.name) for slot in slots]
        return EmbeddingCollection(features=features, tables=[shared])
    sizes = read_feature_sizes(config.cat_feat_num)
    missing = [slot for slot in slots if slot not in sizes]
    if missing:
        raise ValueError(f"cat_feat_num: {config.cat_feat_num} lacks {', '.join(missing)}")
    return EmbeddingCollection(
        features=[EmbeddedFeature(feature=slot, table=f"factors.{slot}") for slot in slots],
        tables=[
            # Id 0 stands for ids that are not in the file.
            config.table(f"factors.{slot}", dim_for(sizes[slot]), start, num_rows=sizes[slot] + 1)
            for slot in slots
        ],
    )
