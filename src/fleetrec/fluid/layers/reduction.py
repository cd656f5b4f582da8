"""Sums, means and extremes; all values together give a variable of shape [1]."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fleetrec.fluid.graph import Variable, record

Axes = int | Sequence[int] | None


def _reduction(kind: str, fn: Callable[..., Tensor]) -> Callable[..., Variable]:
    def layer(
        input: Variable,
        dim: Axes = None,
        keep_dim: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
        name: str | None = None,
    ) -> Variable:
        axes = None if dim is None else [dim] if isinstance(dim, int) else list(dim)

        def compute(call: Any) -> Tensor:
            x = call.inputs[0]
            reduced = fn(x, dim=list(range(x.dim())) if axes is None else axes, keepdim=keep_dim)
            return reduced.reshape(1) if reduced.dim() == 0 else reduced

        return record(kind, [input], compute, name=name)

    layer.__name__ = kind
    layer.__doc__ = "Reduce all values, or those along some axes."
    return layer


reduce_sum = _reduction("reduce_sum", torch.sum)
reduce_mean = _reduction("reduce_mean", torch.mean)
reduce_max = _reduction("reduce_max", torch.amax)
reduce_min = _reduction("reduce_min", torch.amin)


def mean(x: Variable, name: str | None = None) -> Variable:
    """Return the mean of all values."""
    return record("mean", [x], lambda call: call.inputs[0].mean().reshape(1), name=name)
