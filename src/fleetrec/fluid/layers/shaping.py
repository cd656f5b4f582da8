"""Joining, splitting and reshaping; the first size of a variable is that of the batch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import Variable, record
from fleetrec.fluid.layers.activation import activate


def concat(
    input: Sequence[Variable],
    axis: int = 0,
    name: str | None = None,
) -> Variable:
    """Join variables along an axis."""
    parts = [input] if isinstance(input, Variable) else list(input)
    if not parts:
        raise ConfigError(["fluid.layers.concat: expected at least one variable"])
    return record("concat", parts, lambda call: torch.cat(list(call.inputs), dim=axis), name=name)


def stack(x: Sequence[Variable], axis: int = 0) -> Variable:
    """Join variables along a new axis."""
    parts = [x] if isinstance(x, Variable) else list(x)
    return record("stack", parts, lambda call: torch.stack(list(call.inputs), dim=axis))


def split(
    input: Variable,
    num_or_sections: int | Sequence[int],
    dim: int = -1,
    name: str | None = None,
) -> list[Variable]:
    """Split a variable along an axis: into equal parts, or into parts of given sizes."""
    size = input.shape[dim]
    if isinstance(num_or_sections, int):
        if size < 1 or size % num_or_sections:
            raise ConfigError(
                [f"fluid.layers.split: cannot split size {size} into {num_or_sections} parts"]
            )
        sizes = [size // num_or_sections] * num_or_sections
    else:
        sizes = list(num_or_sections)
        if -1 in sizes:
            sizes[sizes.index(-1)] = size - sum(one for one in sizes if one != -1)
        if sum(sizes) != size or min(sizes) < 0:
            raise ConfigError(
                [f"fluid.layers.split: sections {list(num_or_sections)} do not add up to {size}"]
            )
    prefix = name or input.program.unique("split")
    begins = [sum(sizes[:index]) for index in range(len(sizes))]
    return [
        _slice(input, dim, begin, length, name=f"{prefix}_{index}")
        for index, (begin, length) in enumerate(zip(begins, sizes, strict=True))
    ]


def _slice(x: Variable, dim: int, begin: int, length: int, *, name: str) -> Variable:
    return record("split", [x], lambda call: call.inputs[0].narrow(dim, begin, length), name=name)


def reshape(
    x: Variable, shape: Sequence[int], act: str | None = None, name: str | None = None
) -> Variable:
    """Change the shape: 0 keeps a size, and one -1 is computed."""
    sizes = list(shape)

    def compute(call: Any) -> Tensor:
        found: Tensor = call.inputs[0]
        return found.reshape([found.shape[i] if s == 0 else s for i, s in enumerate(sizes)])

    return activate(record("reshape", [x], compute, name=name), act)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """Join the sizes before an axis into one, and those from there into another."""

    def compute(call: Any) -> Tensor:
        found: Tensor = call.inputs[0]
        rows = 1
        for size in found.shape[:axis]:
            rows *= size
        return found.reshape(rows, -1)

    return record("flatten", [x], compute, name=name)


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """Reorder the axes."""
    order = list(perm)
    return record("transpose", [x], lambda call: call.inputs[0].permute(order), name=name)


def unsqueeze(
    input: Variable,
    axes: Sequence[int],
    name: str | None = None,
) -> Variable:
    """Insert sizes of 1 at axes of the result."""

    def compute(call: Any) -> Tensor:
        found: Tensor = call.inputs[0]
        for axis in axes:
            found = found.unsqueeze(axis)
        return found

    return record("unsqueeze", [input], compute, name=name)


def squeeze(
    input: Variable,
    axes: Sequence[int],
    name: str | None = None,
) -> Variable:
    """Remove sizes of 1; axes must be given, for the batch may have one sample."""
    for axis in axes:
        if input.shape[axis] != 1:
            raise ConfigError(
                [f"fluid.layers.squeeze: size {axis} of {list(input.shape)} is not 1"]
            )
    return record("squeeze", [input], lambda call: call.inputs[0].squeeze(tuple(axes)), name=name)
