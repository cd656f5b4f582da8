"""Linear layers, each with its ReLU, in fewer passes over memory than one operation each needs.

The products are torch's; what is small arithmetic between them is the native core's. Only training
on the CPU needs it: whatever is exported, or runs on another device, is made of torch alone.
"""

# Shape suffixes: B samples, X input width, O output width.

import itertools
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version
from torch.nn import functional

from fleetrec._native import (
    add_bias_relu,
    add_bias_relu_dot,
    bias_relu_backward,
    bias_relu_dot_backward,
)

# So few columns are multiplied faster the other way round.
NARROW = 64


def linear_relus(
    parts: Sequence[Tensor], layers: Sequence[nn.Linear], head: nn.Linear | None = None
) -> Tensor:
    """Return relu(x W' + b), layer after layer, x being the parts side by side, on the CPU.

    With a ``head`` of one output, what it makes of that, one number per sample.
    """
    has_head = head is not None
    linears = [*layers] if head is None else [*layers, head]
    weights = itertools.chain.from_iterable((layer.weight, layer.bias) for layer in linears)
    return cast(Tensor, _LinearRelus.apply(len(parts), has_head, *parts, *weights))  # type: ignore[no-untyped-call]


def linear_of_parts(parts: Sequence[Tensor], weight_OX: Tensor, bias_O: Tensor | None) -> Tensor:
    """Return x W' + b, x being the parts side by side, without putting them there."""
    if len(parts) == 1:
        return functional.linear(parts[0], weight_OX, bias_O)
    columns = torch.split(weight_OX, [part.shape[1] for part in parts], dim=1)
    # The wider a product, the less it matters that it adds to what stands there.
    (first, own), *others = sorted(zip(parts, columns, strict=True), key=lambda x: x[0].shape[1])
    y_BO = functional.linear(first, own, bias_O)
    for part, own in others:
        y_BO = y_BO.addmm_(part, own.t())
    return y_BO


class _LinearRelus(torch.autograd.Function):
    """Inputs: the number of parts, whether there is a head, the parts, then weights and biases."""

    @staticmethod
    def forward(ctx: Any, num_parts: int, has_head: bool, *tensors: Tensor) -> Tensor:  # noqa: FBT001
        parts, weights = tensors[:num_parts], tensors[num_parts:]
        hidden, head = (weights[:-2], weights[-2:]) if has_head else (weights, None)
        inputs, outputs = parts, []
        for weight_OX, bias_O in zip(hidden[:-2:2], hidden[1:-2:2], strict=True):
            y_BO = linear_of_parts(inputs, weight_OX, None)
            add_bias_relu(y_BO.numpy(), bias_O.numpy())
            outputs.append(y_BO)
            inputs = (y_BO,)
        y_BO = linear_of_parts(inputs, hidden[-2], None)
        if head is None:
            add_bias_relu(y_BO.numpy(), hidden[-1].numpy())
            result = y_BO
        else:
            result = torch.empty(len(y_BO))
            weight_O = head[0].view(-1)
            add_bias_relu_dot(y_BO.numpy(), hidden[-1].numpy(), weight_O.numpy(), result.numpy())
            result += head[1]
        ctx.num_parts, ctx.has_head = num_parts, has_head
        ctx.save_for_backward(*parts, *weights, *outputs, y_BO)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        num_layers = (len(ctx.needs_input_grad) - 2 - ctx.num_parts) // 2 - ctx.has_head
        parts = ctx.saved_tensors[: ctx.num_parts]
        weights = ctx.saved_tensors[ctx.num_parts : -num_layers : 2]
        outputs = ctx.saved_tensors[-num_layers:]
        needs = ctx.needs_input_grad[2 + ctx.num_parts :]
        # What comes in or went out is others', too; what is between layers is changed in place.
        passed_BO = outputs[-1] if ctx.has_head else torch.empty_like(outputs[-1])
        incoming_BO = grad.contiguous()
        grads: list[Tensor | None] = []
        for i in reversed(range(num_layers)):
            bias_grad_O = torch.empty(len(weights[i]))
            if ctx.has_head and i == num_layers - 1:
                grads = _head_grads(incoming_BO, passed_BO, weights[-1], bias_grad_O)
            else:
                bias_relu_backward(
                    incoming_BO.numpy(), outputs[i].numpy(), passed_BO.numpy(), bias_grad_O.numpy()
                )
            inputs = (outputs[i - 1],) if i else parts
            weight_grad_OX = _weight_grad(inputs, passed_BO) if needs[2 * i] else None
            grads = [weight_grad_OX, bias_grad_O, *grads]
            if i:
                incoming_BO = passed_BO = torch.mm(passed_BO, weights[i])
        columns = torch.split(weights[0], [part.shape[1] for part in parts], dim=1)
        part_grads = [
            torch.mm(passed_BO, own) if is_needed else None
            for is_needed, own in zip(ctx.needs_input_grad[2:], columns, strict=False)
        ]
        wanted = [own if is_needed else None for own, is_needed in zip(grads, needs, strict=True)]
        return None, None, *part_grads, *wanted


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
    increment_version(y_BO)  # so that torch refuses to go back a second time
    return [weight_grad_1O, grad_B.sum(dim=0, keepdim=True)]


def _weight_grad(parts: Sequence[Tensor], passed_BO: Tensor) -> Tensor:
    widths = [part.shape[1] for part in parts]
    grad_OX = torch.empty(passed_BO.shape[1], sum(widths))
    for part, own in zip(parts, torch.split(grad_OX, widths, dim=1), strict=True):
        if part.shape[1] < NARROW:
            own.copy_(torch.mm(part.t().contiguous(), passed_BO).t())
        else:
            torch.mm(passed_BO.t(), part, out=own)
    return grad_OX
