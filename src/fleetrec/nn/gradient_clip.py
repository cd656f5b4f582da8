"""Gradient clipping by parameter."""

import torch
from torch import Tensor, nn


def clip_gradients(module: nn.Module, *, max_norm: float) -> None:
    """Scale the gradient of each parameter down to ``max_norm`` wherever its norm is larger."""

    def clip(grad: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(grad)
        return grad * torch.clamp(max_norm / norm.clamp(min=max_norm), max=1.0)

    for parameter in module.parameters():
        parameter.register_hook(clip)  # type: ignore[no-untyped-call]
