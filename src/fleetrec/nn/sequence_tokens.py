"""Tokens of a transformer from sequences of vectors."""

# Shape suffixes: B samples, L elements, D width of an element, H hidden width, P positions.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class SequenceTokens(nn.Module):
    """x W + b + position + kind, with dropout; sequences are cut to ``num_positions``.

    Without positions, sequences may have any length.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        num_positions: int = 0,
        has_kind: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.project = nn.Identity() if dim == hidden else scaled_linear(dim, hidden)
        self.num_positions = num_positions
        self.positions_PH = None
        if num_positions:
            self.positions_PH = nn.Parameter(torch.randn(num_positions, hidden) * 0.02)
        self.kind_H = nn.Parameter(torch.randn(hidden) * 0.02) if has_kind else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens_BLH and their mask."""
        if self.positions_PH is not None:
            x_BLD, mask_BL = self._fitted(x_BLD, mask_BL)
        tokens_BLH = self.project(x_BLD)
        if self.positions_PH is not None:
            tokens_BLH = tokens_BLH + self.positions_PH[: tokens_BLH.shape[1]]
        if self.kind_H is not None:
            tokens_BLH = tokens_BLH + self.kind_H
        return self.dropout(tokens_BLH), mask_BL

    def _fitted(self, x_BLD: Tensor, mask_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return at most ``num_positions`` elements; in an exported graph always as many."""
        if torch.compiler.is_exporting():
            rest_BPD = x_BLD.new_zeros(x_BLD.shape[0], self.num_positions, x_BLD.shape[2])
            x_BLD = torch.cat([x_BLD, rest_BPD], dim=1)
            mask_BL = torch.cat([mask_BL, torch.zeros_like(rest_BPD[:, :, 0], dtype=torch.bool)], 1)
        return x_BLD[:, : self.num_positions], mask_BL[:, : self.num_positions]


def mean_of_tokens(tokens_BLH: Tensor, mask_BL: Tensor) -> Tensor:
    """Return the mean of the tokens that the mask leaves; zeros if there is none."""
    count_B1 = mask_BL.sum(dim=1, keepdim=True).clamp(min=1)
    return (tokens_BLH * mask_BL.unsqueeze(2)).sum(dim=1) / count_B1


def all_true(tokens_BLH: Tensor) -> Tensor:
    """Return a mask for tokens of which all count."""
    return torch.ones_like(tokens_BLH[:, :, 0], dtype=torch.bool)
