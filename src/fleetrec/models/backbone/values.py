"""What blocks pass to each other: a tensor, or a list of them."""

# Shape suffixes: B samples, F fields, L elements, D width, X width.

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Value = Any  # Tensor, or a list of values


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceValue:
    """Sequences side by side, their lengths, and the vector of the target, if there is one."""

    x_BLD: Tensor
    lengths_B: Tensor
    target_BX: Tensor | None

    @property
    def mask_BL(self) -> Tensor:  # noqa: N802
        """Return a mask of the elements."""
        places_L = torch.arange(self.x_BLD.shape[1], device=self.x_BLD.device)
        return places_L < self.lengths_B.unsqueeze(1)


class Adapter(nn.Module):
    """A layer, and how it takes the value of a block."""

    def __init__(self, inner: nn.Module, call: Callable[[Any, Value], Value]) -> None:
        super().__init__()
        self.inner = inner
        self._call_inner = call

    def forward(self, value: Value) -> Value:
        """Return the output of the layer."""
        return self._call_inner(self.inner, value)


def flat(value: Value) -> list[Tensor]:
    """Return all tensors of a value."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for part in value for tensor in flat(part)]


def matrix(value: Value) -> Tensor:
    """Return one tensor: several are concatenated along the last dimension."""
    parts = flat(value)
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def fields(value: Value) -> list[Tensor]:
    """Return one x_BD per field, of a list or of x_BFD."""
    if isinstance(value, Tensor):
        if value.dim() != 3:
            raise ValueError(f"expected a list of features or 3 dimensions, got {value.dim()}")
        return list(value.unbind(dim=1))
    return flat(value)


def stacked(value: Value) -> Tensor:
    """Return x_BFD of a list of equally wide features, or of such a tensor."""
    if isinstance(value, Tensor) and value.dim() == 3:
        return value
    parts = fields(value)
    dims = {part.shape[-1] for part in parts}
    if len(dims) != 1:
        raise ValueError(f"expected features of one width, got {sorted(dims)}")
    return torch.stack(parts, dim=1)


def pair(value: Value) -> tuple[Tensor, Tensor]:
    """Return two tensors; one alone stands for both."""
    if isinstance(value, Tensor):
        return value, value
    if len(value) < 2:
        raise ValueError("expected a list of two inputs; set merge_inputs_into_list: true")
    return matrix(value[0]), matrix(value[1])


def sequence(value: Value) -> SequenceValue:
    """Return the sequences of an input layer with ``output_seq_and_normal_feature: true``."""
    if isinstance(value, Tensor) or len(value) < 2 or matrix(value[0]).dim() != 3:
        raise ValueError(
            "expected sequences, their lengths and a target: an input_layer with "
            "output_seq_and_normal_feature: true"
        )
    target = matrix(value[2]) if len(value) > 2 else None
    return SequenceValue(x_BLD=matrix(value[0]), lengths_B=value[1], target_BX=target)


def merge(values: Sequence[Value], axis: int) -> Value:
    """Merge the inputs of a block: lists are joined, tensors concatenated."""
    if len(values) == 1:
        return values[0]
    if any(isinstance(value, list) for value in values):
        if not all(isinstance(value, list) for value in values):
            raise ValueError(
                "some inputs are lists and others are not; use an input_fn such as lambda x: [x]"
            )
        return [part for value in values for part in value]
    ranks = {value.dim() for value in values}
    if len(ranks) != 1:
        raise ValueError(f"expected inputs with equally many dimensions, got {sorted(ranks)}")
    return torch.cat(list(values), dim=axis)
