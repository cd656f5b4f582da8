"""Gated cross network."""

# Shape suffixes: B samples, X input width, H width before the output.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.gated_cross import GatedCross
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """GDCN: gated crosses, parallel to an MLP or below it.

    Wang et al., "Towards Deeper, Lighter and Interpretable Cross Network for CTR Prediction",
    CIKM 2023.
    """

    class Config(VectorOptions):
        """Hyper-parameters of GDCN."""

        structure: Literal["parallel", "stacked"] = Field(
            default="parallel",
            description="MLP parallel to the crosses (GDCN-P) or on top of them (GDCN-S)",
        )
        cross_num: int = Field(default=3, gt=0, description="number of gated cross layers")
        fc_sizes: tuple[int, ...] = Field(
            default=(400, 400, 400), description="widths of the hidden layers"
        )
        dropout_rate: float = Field(
            default=0.0, ge=0, lt=1, description="dropout probability of hidden values"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(config, inputs=inputs, dim=config.sparse_feature_dim)
        super().__init__(fields)
        self.is_stacked = config.structure == "stacked"
        self.cross = GatedCross(fields.out_dim, num_layers=config.cross_num)
        self.mlp = Mlp(fields.out_dim, config.fc_sizes, dropout=config.dropout_rate)
        self.out = scaled_linear(self.mlp.out_dim + (0 if self.is_stacked else fields.out_dim), 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BX = self.fields.vectors(batch).flatten(1)
        crossed_BX = self.cross(x_BX)
        if self.is_stacked:
            h_BH = self.mlp(crossed_BX)
        else:
            h_BH = torch.cat([crossed_BX, self.mlp(x_BX)], dim=1)
        return click_outputs(self.out(h_BH).squeeze(1))
