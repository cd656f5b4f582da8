"""Operations on values, pairs of values, and matrix products."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import Variable, combine, record
from fleetrec.fluid.layers.activation import activate

DTYPES = (
    ("float32", torch.float32),
    ("float64", torch.float64),
    ("int32", torch.int32),
    ("int64", torch.int64),
    ("bool", torch.bool),
)


def _pairs(kind: str, fn: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Variable]:
    def layer(
        x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
    ) -> Variable:
        if isinstance(y, Variable) and axis >= 0:

            def aligned(a: Tensor, b: Tensor) -> Tensor:
                missing_sizes = a.dim() - axis - b.dim()
                return fn(a, b.reshape(*b.shape, *(1,) * missing_sizes))

            return activate(combine(kind, aligned, x, y, name=name), act)
        return activate(combine(kind, fn, x, y, name=name), act)

    layer.__name__ = kind
    layer.__doc__ = "Combine values; sizes of y are aligned with the last ones of x, or at axis."
    return layer


elementwise_add = _pairs("elementwise_add", torch.add)
elementwise_sub = _pairs("elementwise_sub", torch.sub)
elementwise_mul = _pairs("elementwise_mul", torch.mul)
elementwise_div = _pairs("elementwise_div", torch.true_divide)
elementwise_max = _pairs("elementwise_max", torch.maximum)
elementwise_min = _pairs("elementwise_min", torch.minimum)


def scale(
    x: Variable,
    scale: float = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,  # noqa: FBT001, FBT002 (as in Fluid)
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Return scale * x + bias, or scale * (x + bias)."""
    shift = bias if bias_after_scale else scale * bias
    return activate(
        record("scale", [x], lambda call: call.inputs[0] * scale + shift, name=name), act
    )


def pow(x: Variable, factor: float = 1.0, name: str | None = None) -> Variable:
    """Return x to a power."""
    return record("pow", [x], lambda call: call.inputs[0].pow(factor), name=name)


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """Bound values."""
    return record("clip", [x], lambda call: call.inputs[0].clamp(min, max), name=name)


def cast(x: Variable, dtype: str) -> Variable:
    """Convert values to another dtype."""
    known = dict(DTYPES)
    if dtype not in known:
        raise ConfigError([f"fluid.layers.cast: no dtype {dtype!r}; known: {', '.join(known)}"])
    target = known[dtype]
    return record("cast", [x], lambda call: call.inputs[0].to(target))


def sum(x: Variable | Sequence[Variable]) -> Variable:
    """Return the sum of several variables of one shape."""
    parts = [x] if isinstance(x, Variable) else list(x)
    if not parts:
        raise ConfigError(["fluid.layers.sum: expected at least one variable"])
    return record("sum", parts, lambda call: torch.stack(list(call.inputs)).sum(dim=0))


sums = sum


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    transpose_y: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """Return the matrix product of the last two sizes, times alpha."""

    def compute(call: Any) -> Tensor:
        a, b = call.inputs
        a = a.transpose(-1, -2) if transpose_x else a
        b = b.transpose(-1, -2) if transpose_y else b
        product: Tensor = torch.matmul(a, b)
        return product if alpha == 1 else product * alpha

    return record("matmul", [x, y], compute, name=name)
