"""Linear layers with a configurable precision of matrix products on the CPU."""

# Shape suffixes: B samples, X input width, O output width.

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fleetrec.config.job import MatmulPrecision
from fleetrec.nn.matmul import mm, num_pieces_of, takes_tiles


class Linear(nn.Linear):
    """``torch.nn.Linear`` that uses AMX tiles on the CPU where they are faster."""

    def __init__(self, in_dim: int, out_dim: int, *, bias: bool = True) -> None:
        super().__init__(in_dim, out_dim, bias=bias)
        self.num_pieces = num_pieces_of("highest")

    def forward(self, x: Tensor) -> Tensor:
        """Return x W' + b; ``x`` may have several leading dimensions."""
        return linear(x, self.weight, self.bias, num_pieces=self.num_pieces)


def set_matmul_precision(model: nn.Module, precision: MatmulPrecision) -> None:
    """Set the minimum precision of matrix products on the CPU in all linear layers of a model."""
    for layer in model.modules():
        if isinstance(layer, Linear):
            layer.num_pieces = num_pieces_of(precision)


def linear(
    x: Tensor, weight_OX: Tensor, bias_O: Tensor | None, *, num_pieces: int | None
) -> Tensor:
    """Return x W' + b, computed by tiles if ``num_pieces`` is given and tiles are faster."""
    if not multiplies_by_tiles(x, weight_OX, num_pieces=num_pieces):
        return functional.linear(x, weight_OX, bias_O)
    y_BO = _Linear.apply(num_pieces, x.flatten(end_dim=-2), weight_OX, bias_O)  # type: ignore[no-untyped-call]
    return cast(Tensor, y_BO).view(*x.shape[:-1], weight_OX.shape[0])


def multiplies_by_tiles(x: Tensor, weight_OX: Tensor, *, num_pieces: int | None) -> bool:
    """Return whether x W' is computed by tiles."""
    is_plain = x.device.type == "cpu" and x.dtype == torch.float32
    num_samples = x.numel() // weight_OX.shape[1]
    return is_plain and takes_tiles(num_pieces, num_samples, *weight_OX.shape)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, num_pieces: int, x_BX: Tensor, weight_OX: Tensor, bias_O: Tensor | None
    ) -> Tensor:
        ctx.num_pieces = num_pieces
        ctx.save_for_backward(x_BX, weight_OX)
        y_BO = mm(x_BX, weight_OX.t(), num_pieces=num_pieces)
        return y_BO if bias_O is None else y_BO.add_(bias_O)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BO: Tensor) -> tuple[Tensor | None, ...]:
        x_BX, weight_OX = ctx.saved_tensors
        _, needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            None,
            mm(grad_BO, weight_OX, num_pieces=ctx.num_pieces) if needs_x else None,
            mm(grad_BO.t(), x_BX, num_pieces=ctx.num_pieces) if needs_weight else None,
            grad_BO.sum(dim=0) if needs_bias else None,
        )
