"""Attention pooling of a list of vectors."""

# Shape suffixes: B samples, L longest list, D width.

import torch
from torch import Tensor, nn

from fleetrec.nn.weights import scaled_weight


class SequenceAttention(nn.Module):
    """y = sum_l softmax_l(<w, x_l>) x_l over the elements of the list; zeros for an empty list."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = scaled_weight(dim, fan_in=dim)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return y_BD."""
        scores_BL = (x_BLD @ self.weight).masked_fill(~mask_BL, torch.finfo(x_BLD.dtype).min)
        shares_BL = torch.softmax(scores_BL, dim=1) * mask_BL
        return (shares_BL.unsqueeze(2) * x_BLD).sum(dim=1)
