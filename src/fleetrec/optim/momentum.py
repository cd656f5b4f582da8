"""Gradient descent with the velocity of earlier steps."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from fleetrec.optim.formula import Formula


class Momentum(Formula):
    """v = momentum v + g; w = (1 - weight_decay) w - lr v."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr=lr)
        self._momentum, self._weight_decay = momentum, weight_decay

    def new_state(self, weight: Tensor) -> dict[str, Tensor]:
        """Return a velocity of zero."""
        return {"velocity": torch.zeros_like(weight)}

    def move(self, weight: Tensor, grad: Tensor, state: dict[str, Tensor], *, lr: float) -> None:
        """Update the velocity, then the weight."""
        velocity = state["velocity"].mul_(self._momentum).add_(grad)
        weight.mul_(1 - self._weight_decay).sub_(velocity, alpha=lr)
