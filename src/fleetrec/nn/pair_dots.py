"""Dot products of fields, in several shapes."""

# Shape suffixes: B samples, F fields, D width, P pairs.

import torch
from torch import Tensor, nn


class PairDots(nn.Module):
    """y_ij = <v_i, v_j> for i < j, or i <= j ``with_self``.

    With ``square`` all F² places are returned, and those of other pairs are 0.
    """

    kept_P: Tensor

    def __init__(self, num_fields: int, *, with_self: bool = False, square: bool = False) -> None:
        super().__init__()
        ones_FF = torch.ones(num_fields, num_fields)
        kept_FF = ones_FF.tril(0 if with_self else -1)
        self.square = square
        kept_P = kept_FF.flatten() if square else kept_FF.flatten().nonzero().squeeze(1)
        self.register_buffer("kept_P", kept_P, persistent=False)
        self.out_dim = len(kept_P)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return y_BP."""
        products_BX = (x_BFD @ x_BFD.transpose(1, 2)).flatten(1)
        return products_BX * self.kept_P if self.square else products_BX[:, self.kept_P]
