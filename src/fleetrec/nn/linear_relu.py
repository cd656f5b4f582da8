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
from torch.nn import functional

from fleetrec._native import add_bias_relu, bias_relu_backward

# So few columns are multiplied faster the other way round.
NARROW = 64


def linear_relus(parts: Sequence[Tensor], layers: Sequence[nn.Linear]) -> Tensor:
    """Return relu(x W' + b), layer after layer, x being the parts side by side, on the CPU."""
    weights = itertools.chain.from_iterable((layer.weight, layer.bias) for layer in layers)
    return cast(Tensor, _LinearRelus.apply(len(parts), *parts, *weights))  # type: ignore[no-untyped-call]


def linear_of_parts(parts: Sequence[Tensor], weight_OX: Tensor, bias_O: Tensor | None) -> Tensor:
    """Return x W' + b, x being the parts side by side, without putting them there."""
    if len(parts) == 1:
        return functional.linear(parts[0], weight_OX, bias_O)
    columns = torch.split(weight_OX, [part.shape[1] for part in parts], dim=1)
    y_BO = functional.linear(parts[0], columns[0], bias_O)
    for part, own in zip(parts[1:], columns[1:], strict=True):
        y_BO = y_BO.addmm_(part, own.t())
    return y_BO


class _LinearRelus(torch.autograd.Function):
    """Inputs: the number of parts, the parts, then weight and bias of every layer."""

    @staticmethod
    def forward(ctx: Any, num_parts: int, *tensors: Tensor) -> Tensor:
        parts, weights = tensors[:num_parts], tensors[num_parts:]
        inputs, outputs = parts, []
        for weight_OX, bias_O in zip(weights[::2], weights[1::2], strict=True):
            y_BO = linear_of_parts(inputs, weight_OX, None)
            add_bias_relu(y_BO.numpy(), bias_O.numpy())
            outputs.append(y_BO)
            inputs = (y_BO,)
        ctx.num_parts = num_parts
        ctx.save_for_backward(*parts, *weights, *outputs)
        return outputs[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BO: Tensor) -> tuple[Tensor | None, ...]:
        num_layers = (len(ctx.needs_input_grad) - 1 - ctx.num_parts) // 2
        parts = ctx.saved_tensors[: ctx.num_parts]
        weights = ctx.saved_tensors[ctx.num_parts : -num_layers : 2]
        outputs = ctx.saved_tensors[-num_layers:]
        needs = ctx.needs_input_grad[1 + ctx.num_parts :]
        grads: list[Tensor | None] = []
        # The gradient that comes is others', too; those between layers are changed in place.
        passed_BO = torch.empty_like(outputs[-1])
        incoming_BO = grad_BO.contiguous()
        for i in reversed(range(num_layers)):
            bias_grad_O = torch.empty(len(weights[i]))
            bias_relu_backward(
                incoming_BO.numpy(), outputs[i].numpy(), passed_BO.numpy(), bias_grad_O.numpy()
            )
            inputs = (outputs[i - 1],) if i else parts
            weight_grad_OX = _weight_grad(inputs, passed_BO) if needs[2 * i] else None
            grads = [weight_grad_OX, bias_grad_O if needs[2 * i + 1] else None, *grads]
            if i:
                incoming_BO = passed_BO = torch.mm(passed_BO, weights[i])
        columns = torch.split(weights[0], [part.shape[1] for part in parts], dim=1)
        part_grads = [
            torch.mm(passed_BO, own) if is_needed else None
            for is_needed, own in zip(ctx.needs_input_grad[1:], columns, strict=False)
        ]
        return None, *part_grads, *grads


def _weight_grad(parts: Sequence[Tensor], passed_BO: Tensor) -> Tensor:
    widths = [part.shape[1] for part in parts]
    grad_OX = torch.empty(passed_BO.shape[1], sum(widths))
    for part, own in zip(parts, torch.split(grad_OX, widths, dim=1), strict=True):
        if part.shape[1] < NARROW:
            own.copy_(torch.mm(part.t(), passed_BO).t())
        else:
            torch.mm(passed_BO.t(), part, out=own)
    return grad_OX
