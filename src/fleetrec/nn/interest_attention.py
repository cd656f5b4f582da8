"""Attention of a target to a history, normalised over the history."""

# Shape suffixes: B samples, L elements of a history, D width, Q width of the target.

import math
from typing import Literal

import torch
from torch import Tensor, nn

Normalizer = Literal["softmax", "sigmoid"]


class InterestAttention(nn.Module):
    """y = sum_l w_l k_l, w = softmax_l or sigmoid of MLP(q, k_l, q - k_l, q * k_l).

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018. A target that
    is narrower than the history is padded with zeros, and the result is as wide as the target.
    """

    def __init__(self, scorer: nn.Module, *, normalizer: Normalizer = "softmax") -> None:
        """``scorer`` maps four vectors of the width of the history to one number."""
        super().__init__()
        self.scorer = scorer
        self.normalizer = normalizer

    def forward(self, target_BQ: Tensor, history_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return y_BQ; ``mask_BL`` is true where there is an element; zeros without any."""
        dim, target_dim = history_BLD.shape[2], target_BQ.shape[1]
        if target_dim > dim:
            raise ValueError(f"the target, {target_dim} wide, is wider than the history, {dim}")
        padded_BD = nn.functional.pad(target_BQ, (0, dim - target_dim))
        target_BLD = padded_BD.unsqueeze(1).expand_as(history_BLD)
        both_BLX = torch.cat(
            [target_BLD, history_BLD, target_BLD - history_BLD, target_BLD * history_BLD], dim=2
        )
        scores_BL = self.scorer(both_BLX).squeeze(2)
        if self.normalizer == "softmax":
            lowest = torch.finfo(scores_BL.dtype).min
            weights_BL = torch.softmax(scores_BL.masked_fill(~mask_BL, lowest), dim=1) * mask_BL
        else:
            weights_BL = torch.sigmoid(scores_BL / math.sqrt(dim)) * mask_BL
        return (weights_BL.unsqueeze(2) * history_BLD).sum(dim=1)[:, :target_dim]
