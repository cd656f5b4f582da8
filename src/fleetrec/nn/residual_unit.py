"""Residual unit."""

# Shape suffixes: B samples, X input width.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class ResidualUnit(nn.Module):
    """x' = relu(W_2 relu(W_1 x + b_1) + b_2 + x).

    Shan et al., "Deep Crossing: Web-Scale Modeling without Manually Crafted Combinatorial
    Features", KDD 2016.
    """

    def __init__(self, in_dim: int, *, hidden_dim: int) -> None:
        super().__init__()
        self.inner = scaled_linear(in_dim, hidden_dim)
        self.outer = scaled_linear(hidden_dim, in_dim)

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return x_BX."""
        return torch.relu(self.outer(torch.relu(self.inner(x_BX))) + x_BX)
