"""Attention of a task to the tasks before it."""

# Shape suffixes: B samples, T towers, D width of attention.

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class TransferAttention(nn.Module):
    """y = sum_t softmax_t(<q_0, k_t> / sqrt(D)) v_t over a tower and those of earlier tasks.

    Every tower has its own query, key and value layers; no gradient goes to the earlier tasks
    unless ``stops`` is false. ``transfer`` are layers over their towers.
    Xi et al., "Modeling the Sequential Dependence among Audience Multi-step Conversions with
    Multi-task Learning in Targeted Display Advertising", KDD 2021.
    """

    def __init__(
        self,
        in_dims: Sequence[int],
        *,
        dim: int,
        transfer: nn.Module | None = None,
        stops: bool = True,
    ) -> None:
        """``in_dims`` are the widths of the towers after ``transfer``; the first is the own one."""
        super().__init__()
        self.transfer, self.stops = transfer, stops
        self.out_dim = dim
        self.query = scaled_linear(in_dims[0], dim)
        self.keys = nn.ModuleList(scaled_linear(width, dim) for width in in_dims)
        self.values = nn.ModuleList(scaled_linear(width, dim) for width in in_dims)

    def forward(self, towers: Sequence[Tensor]) -> Tensor:
        """Return y_BD."""
        own, *others = towers
        others = [other.detach() for other in others] if self.stops else others
        if self.transfer is not None:
            others = [self.transfer(other) for other in others]
        known = [own, *others]
        keys_BTD = torch.stack([k(x) for k, x in zip(self.keys, known, strict=True)], dim=1)
        values_BTD = torch.stack([v(x) for v, x in zip(self.values, known, strict=True)], dim=1)
        scores_BT = (keys_BTD * self.query(own).unsqueeze(1)).sum(dim=2) / math.sqrt(self.out_dim)
        return (torch.softmax(scores_BT, dim=1).unsqueeze(2) * values_BTD).sum(dim=1)
