"""Blocks that multiply by masks computed from the input."""

# Shape suffixes: B samples, E all vectors side by side, X width before the MLP.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.mask_block import MaskBlock
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """MaskNet: parallel or stacked mask blocks, then an MLP.

    Wang, She and Zhang, "MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking Models by
    Instance-Guided Mask", DLP-KDD 2021.
    """

    class Config(VectorOptions):
        """Hyper-parameters of MaskNet."""

        structure: Literal["parallel", "serial"] = Field(
            default="parallel", description="parallel or stacked blocks"
        )
        num_blocks: int = Field(default=3, gt=0, description="number of blocks")
        block_dim: int = Field(default=64, gt=0, description="width of a block's output")
        reduction_ratio: float = Field(
            default=1.0, gt=0, description="inner width of a mask, as a multiple of the input width"
        )
        fc_sizes: tuple[int, ...] = Field(
            default=(64, 32), description="widths of the hidden layers over the blocks"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(config, inputs=inputs, dim=config.sparse_feature_dim)
        super().__init__(fields)
        self.is_serial = config.structure == "serial"
        self.norm = nn.LayerNorm(fields.dim)
        self.blocks = nn.ModuleList(
            MaskBlock(
                fields.out_dim,
                config.block_dim if self.is_serial and block > 0 else fields.out_dim,
                config.block_dim,
                reduction_ratio=config.reduction_ratio,
            )
            for block in range(config.num_blocks)
        )
        width = config.block_dim * (1 if self.is_serial else config.num_blocks)
        self.mlp = Mlp(width, config.fc_sizes)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        embedded_BE, h_BX = x_BFD.flatten(1), self.norm(x_BFD).flatten(1)
        if self.is_serial:
            for block in self.blocks:
                h_BX = block(embedded_BE, h_BX)
        else:
            h_BX = torch.cat([block(embedded_BE, h_BX) for block in self.blocks], dim=1)
        return click_outputs(self.out(self.mlp(h_BX)).squeeze(1))
