"""Fused linear layers with ReLU: fewer passes over memory than separate operations.

The native core does the elementwise arithmetic between the matrix products. It is used only for
training on the CPU: exported models and other devices use torch operations only.
"""

# Shape suffixes: B samples, X input width, O output width.

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version

from fleetrec._native import (
    add_bias_relu,
    add_bias_relu_dot,
    bias_relu_backward,
    bias_relu_dot_backward,
)
from fleetrec.nn.linear import Linear, linear, multiplies_by_tiles
from fleetrec.nn.matmul import mm

# With at most this many columns, the transposed product is faster.
NARROW = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Makeup:
    """The inputs of the fused function, and the precision of its products."""

    num_parts: int
    has_head: bool
    num_pieces: int | None


def linear_relus(
    parts: Sequence[Tensor], layers: Sequence[Linear], head: Linear | None = None
) -> Tensor:
    """Return relu(x W' + b), layer after layer, on the CPU; x is the concatenation of ``parts``.

    With a ``head`` of one output, return its output: one number per sample.
    """
    linears = [*layers] if head is None else [*layers, head]
    weights = itertools.chain.from_iterable((layer.weight, layer.bias) for layer in linears)
    makeup = _Makeup(
        num_parts=len(parts), has_head=head is not None, num_pieces=layers[0].num_pieces
    )
    return cast(Tensor, _LinearRelus.apply(makeup, *parts, *weights))  # type: ignore[no-untyped-call]


def linear_of_parts(parts: Sequence[Tensor], layer: Linear) -> Tensor:
    """Return x W' + b for the concatenation of ``parts``, without building it."""
    if len(parts) == 1:
        return cast(Tensor, layer(parts[0]))
    num_pieces = layer.num_pieces
    (first, own), *others = _by_width(parts, layer.weight)
    y_BO = linear(first, own, layer.bias, num_pieces=num_pieces)
    for part, own in others:
        if multiplies_by_tiles(part, own, num_pieces=num_pieces):
            y_BO = y_BO.add_(linear(part, own, None, num_pieces=num_pieces))
        else:
            y_BO = y_BO.addmm_(part, own.t())
    return y_BO


def _by_width(parts: Sequence[Tensor], weight_OX: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return parts and their weights, the widest last: accumulating is cheapest there."""
    columns = torch.split(weight_OX, [part.shape[1] for part in parts], dim=1)
    return sorted(zip(parts, columns, strict=True), key=lambda pair: pair[0].shape[1])


class _LinearRelus(torch.autograd.Function):
    """Inputs: the makeup, the parts, then weights and biases, those of the head last."""

    @staticmethod
    def forward(ctx: Any, makeup: _Makeup, *tensors: Tensor) -> Tensor:
        parts, weights = tensors[: makeup.num_parts], tensors[makeup.num_parts :]
        hidden, head = (weights[:-2], weights[-2:]) if makeup.has_head else (weights, None)
        inputs, outputs = parts, []
        for weight_OX, bias_O in zip(hidden[:-2:2], hidden[1:-2:2], strict=True):
            y_BO = _product(inputs, weight_OX, makeup.num_pieces)
            add_bias_relu(y_BO.numpy(), bias_O.numpy())
            outputs.append(y_BO)
            inputs = (y_BO,)
        y_BO = _product(inputs, hidden[-2], makeup.num_pieces)
        if head is None:
            add_bias_relu(y_BO.numpy(), hidden[-1].numpy())
            result = y_BO
        else:
            result = torch.empty(len(y_BO))
            weight_O = head[0].view(-1)
            add_bias_relu_dot(y_BO.numpy(), hidden[-1].numpy(), weight_O.numpy(), result.numpy())
            result += head[1]
        ctx.makeup = makeup
        ctx.save_for_backward(*parts, *weights, *outputs, y_BO)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        num_parts, has_head = ctx.makeup.num_parts, ctx.makeup.has_head
        num_pieces = ctx.makeup.num_pieces
        num_layers = (len(ctx.needs_input_grad) - 1 - num_parts) // 2 - has_head
        parts = ctx.saved_tensors[:num_parts]
        weights = ctx.saved_tensors[num_parts:-num_layers:2]
        outputs = ctx.saved_tensors[-num_layers:]
        needs = ctx.needs_input_grad[1 + num_parts :]
        # The input and output belong to the caller; tensors between layers are changed in place.
        passed_BO = outputs[-1] if has_head else torch.empty_like(outputs[-1])
        incoming_BO = grad.contiguous()
        grads: list[Tensor | None] = []
        for i in reversed(range(num_layers)):
            bias_grad_O = torch.empty(len(weights[i]))
            if has_head and i == num_layers - 1:
                grads = _head_grads(incoming_BO, passed_BO, weights[-1], bias_grad_O)
            else:
                bias_relu_backward(
                    incoming_BO.numpy(), outputs[i].numpy(), passed_BO.numpy(), bias_grad_O.numpy()
                )
            inputs = (outputs[i - 1],) if i else parts
            weight_grad_OX = _weight_grad(inputs, passed_BO, num_pieces) if needs[2 * i] else None
            grads = [weight_grad_OX, bias_grad_O, *grads]
            if i:
                incoming_BO = passed_BO = mm(passed_BO, weights[i], num_pieces=num_pieces)
        columns = torch.split(weights[0], [part.shape[1] for part in parts], dim=1)
        part_grads = [
            mm(passed_BO, own, num_pieces=num_pieces) if is_needed else None
            for is_needed, own in zip(ctx.needs_input_grad[1:], columns, strict=False)
        ]
        wanted = [own if is_needed else None for own, is_needed in zip(grads, needs, strict=True)]
        return None, *part_grads, *wanted


def _product(parts: Sequence[Tensor], weight_OX: Tensor, num_pieces: int | None) -> Tensor:
    (first, own), *others = _by_width(parts, weight_OX)
    y_BO = mm(first, own.t(), num_pieces=num_pieces)
    for part, own in others:
        mm(part, own.t(), num_pieces=num_pieces, out=y_BO, adds=True)
    return y_BO


def _head_grads(
    grad_B: Tensor, y_BO: Tensor, weight_1O: Tensor, bias_grad_O: Tensor
) -> list[Tensor | None]:
    """Return the gradients of weight and bias of the head.

    The output of the layer before it becomes the gradient of that layer.
    """
    weight_grad_1O = torch.empty_like(weight_1O)
    bias_relu_dot_backward(
        grad_B.numpy(),
        y_BO.numpy(),
        weight_1O.view(-1).numpy(),
        bias_grad_O.numpy(),
        weight_grad_1O.view(-1).numpy(),
    )
    increment_version(y_BO)  # so that torch refuses a second backward pass
    return [weight_grad_1O, grad_B.sum(dim=0, keepdim=True)]


def _weight_grad(parts: Sequence[Tensor], passed_BO: Tensor, num_pieces: int | None) -> Tensor:
    widths = [part.shape[1] for part in parts]
    grad_OX = torch.empty(passed_BO.shape[1], sum(widths))
    for part, own in zip(parts, torch.split(grad_OX, widths, dim=1), strict=True):
        if part.shape[1] < NARROW:
            own.copy_(torch.mm(part.t().contiguous(), passed_BO).t())
        else:
            mm(passed_BO.t(), part, num_pieces=num_pieces, out=own)
    return grad_OX
