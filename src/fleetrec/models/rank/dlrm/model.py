"""Dot products of embeddings and of an MLP's output for the dense values."""

# Shape suffixes: B samples, F fields, D width, P pairs.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.dot_interaction import DotInteraction
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """DLRM: dense values become one more vector; an MLP takes it and all dot products.

    Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation
    Systems", 2019.
    """

    class Config(VectorOptions):
        """Hyper-parameters of DLRM."""

        sparse_feature_number: int = Field(default=1000001, gt=0, description="ids in a table")
        sparse_feature_dim: int = Field(default=16, gt=0, description="width of an embedding")
        bot_layer_sizes: tuple[int, ...] = Field(
            default=(512, 256, 64), description="hidden widths for the dense values"
        )
        top_layer_sizes: tuple[int, ...] = Field(
            default=(512, 256), description="hidden widths over the dot products"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        dim = config.sparse_feature_dim
        fields = FieldEmbeddings(config, inputs=inputs, dim=dim, dense="apart")
        super().__init__(fields)
        self.has_dense = fields.dense_dim > 0
        if self.has_dense:
            self.bottom = Mlp(fields.dense_dim, (*config.bot_layer_sizes, dim))
        self.dot = DotInteraction(fields.num_fields + int(self.has_dense))
        self.top = Mlp(self.dot.out_dim + self.has_dense * dim, config.top_layer_sizes)
        self.out = scaled_linear(self.top.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        if self.has_dense:
            dense_BD = self.bottom(self.fields.dense(batch))
            x_BFD = torch.cat([dense_BD.unsqueeze(1), x_BFD], dim=1)
            h_BX = torch.cat([dense_BD, self.dot(x_BFD)], dim=1)
        else:
            h_BX = self.dot(x_BFD)
        return click_outputs(self.out(self.top(h_BX)).squeeze(1))
