"""Multi-layer perceptron."""

import itertools
import math
from collections.abc import Sequence

from torch import nn


class Mlp(nn.Sequential):
    """Linear layers of the given widths, each followed by ReLU; weights start at N(0, 1/fan_in)."""

    def __init__(self, in_dim: int, hidden: Sequence[int]) -> None:
        pairs = itertools.pairwise([in_dim, *hidden])
        super().__init__(*(nn.Sequential(scaled_linear(a, b), nn.ReLU()) for a, b in pairs))
        self.out_dim = [in_dim, *hidden][-1]


def scaled_linear(in_dim: int, out_dim: int) -> nn.Linear:
    """Return a linear layer with weights from N(0, 1/fan_in) and zero bias."""
    linear = nn.Linear(in_dim, out_dim)
    nn.init.normal_(linear.weight, std=1.0 / math.sqrt(in_dim))
    nn.init.zeros_(linear.bias)
    return linear
