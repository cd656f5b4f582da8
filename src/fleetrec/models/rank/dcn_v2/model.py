"""Deep and cross network with weight matrices."""

# Shape suffixes: B samples, X input width, H width before the output.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.matrix_cross import MatrixCross
from fleetrec.nn.mixture_cross import MixtureCross
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """DCN V2: crosses by matrices, full or mixtures of low rank, before or parallel to an MLP.

    Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale
    Learning to Rank Systems", WWW 2021.
    """

    class Config(VectorOptions):
        """Hyper-parameters of DCN V2."""

        cross_num: int = Field(default=2, gt=0, description="number of cross layers")
        fc_sizes: tuple[int, ...] = Field(
            default=(768, 768), description="widths of the hidden layers"
        )
        is_Stacked: bool = Field(
            default=True, description="MLP on top of the crosses; parallel to them if false"
        )
        use_low_rank_mixture: bool = Field(
            default=False, description="mixtures of low-rank matrices instead of full ones"
        )
        low_rank: int = Field(default=32, gt=0, description="rank of an expert's matrix")
        num_experts: int = Field(default=4, gt=0, description="experts of a mixture")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(
            config, inputs=inputs, dim=config.sparse_feature_dim, dense="apart"
        )
        super().__init__(fields)
        in_dim = fields.out_dim + fields.dense_dim
        self.cross: MatrixCross | MixtureCross
        if config.use_low_rank_mixture:
            self.cross = MixtureCross(
                in_dim,
                num_layers=config.cross_num,
                num_experts=config.num_experts,
                rank=config.low_rank,
            )
        else:
            self.cross = MatrixCross(in_dim, num_layers=config.cross_num)
        self.mlp = Mlp(in_dim, config.fc_sizes)
        self.is_stacked = config.is_Stacked
        self.out = scaled_linear(self.mlp.out_dim + (0 if self.is_stacked else in_dim), 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BX = self.fields.vectors(batch).flatten(1)
        if self.fields.dense_dim:
            x_BX = torch.cat([x_BX, self.fields.dense(batch)], dim=1)
        crossed_BX = self.cross(x_BX)
        if self.is_stacked:
            h_BH = self.mlp(crossed_BX)
        else:
            h_BH = torch.cat([crossed_BX, self.mlp(x_BX)], dim=1)
        return click_outputs(self.out(h_BH).squeeze(1))
