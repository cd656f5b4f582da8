"""Layers whose activations differ."""

from collections.abc import Sequence

from torch import nn

from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.mlp import scaled_linear


class Tower(nn.Sequential):
    """Linear layers of the given widths, each followed by its own activation."""

    def __init__(
        self, in_dim: int, sizes: Sequence[int], *, acts: Sequence[ActivationName]
    ) -> None:
        if len(sizes) != len(acts):
            raise ValueError(f"{len(sizes)} layers need as many activations, got {len(acts)}")
        super().__init__()
        for size, act in zip(sizes, acts, strict=True):
            self.append(scaled_linear(in_dim, size))
            self.append(activation(act, dim=size))
            in_dim = size
        self.out_dim = in_dim
