"""Gradients over the root of their mean square, with momentum."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from fleetrec.optim.formula import Formula


class RmsPropMomentum(Formula):
    """s = decay s + (1 - decay) g^2; v = momentum v + lr g / sqrt(s + eps); w = w - v."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        decay: float = 0.9,
        momentum: float = 0.9,
        eps: float = 1.0,
    ) -> None:
        super().__init__(parameters, lr=lr)
        self._decay, self._momentum, self._eps = decay, momentum, eps

    def new_state(self, weight: Tensor) -> dict[str, Tensor]:
        """Return mean squares of one and a velocity of zero."""
        return {"squares": torch.ones_like(weight), "velocity": torch.zeros_like(weight)}

    def move(self, weight: Tensor, grad: Tensor, state: dict[str, Tensor], *, lr: float) -> None:
        """Update the mean square, the velocity, then the weight."""
        squares = state["squares"].lerp_(grad.square(), 1 - self._decay)
        velocity = state["velocity"].mul_(self._momentum)
        velocity.addcdiv_(grad, squares.add(self._eps).sqrt_(), value=lr)
        weight.sub_(velocity)
