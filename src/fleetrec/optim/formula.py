"""Optimizers that are one formula over a parameter, its gradient and its state.

They are those of the row optimizers of the same names, so that a weight moves alike in the dense
network and in a table.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Formula(torch.optim.Optimizer):
    """Applies ``move`` to every parameter that has a gradient."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move all parameters once."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state.update(self.new_state(parameter))
                self.move(parameter, parameter.grad, state, lr=float(group["lr"]))

    @abstractmethod
    def new_state(self, weight: Tensor) -> dict[str, Tensor]:
        """Return the state before the first step."""

    @abstractmethod
    def move(self, weight: Tensor, grad: Tensor, state: dict[str, Tensor], *, lr: float) -> None:
        """Change weight and state in place."""


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
        """Follow the velocity."""
        velocity = state["velocity"].mul_(self._momentum).add_(grad)
        weight.mul_(1 - self._weight_decay).sub_(velocity, alpha=lr)


class LazyAdam(Formula):
    """Adam whose eps stands beside the uncorrected root of the second moment.

    lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t), and
    w = (1 - weight_decay) w - lr_t m / (sqrt(v) + eps).
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr=lr)
        self._betas, self._eps, self._weight_decay = (beta1, beta2), eps, weight_decay

    def new_state(self, weight: Tensor) -> dict[str, Tensor]:
        """Return moments of zero."""
        moments = {name: torch.zeros_like(weight) for name in ("first", "second")}
        return {"step": torch.zeros((), dtype=torch.int64), **moments}

    def move(self, weight: Tensor, grad: Tensor, state: dict[str, Tensor], *, lr: float) -> None:
        """Follow the first moment over the root of the second."""
        beta1, beta2 = self._betas
        state["step"] += 1
        first = state["first"].lerp_(grad, 1 - beta1)
        second = state["second"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        rate = corrected_rate(lr, int(state["step"]), beta1=beta1, beta2=beta2)
        weight.mul_(1 - self._weight_decay)
        weight.addcdiv_(first, second.sqrt().add_(self._eps), value=-rate)


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
        """Follow the velocity of scaled gradients."""
        squares = state["squares"].lerp_(grad.square(), 1 - self._decay)
        velocity = state["velocity"].mul_(self._momentum)
        velocity.addcdiv_(grad, squares.add(self._eps).sqrt_(), value=lr)
        weight.sub_(velocity)


class FtrlPower(Formula):
    """Follow the regularised leader; ``power`` is that of the sums of squares in the rate."""

    def __init__(  # noqa: PLR0913
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        initial_accumulator: float = 0.1,
        l1: float = 0.0,
        l2: float = 0.0,
        l2_shrinkage: float = 0.0,
        power: float = -0.5,
    ) -> None:
        super().__init__(parameters, lr=lr)
        self._initial, self._power = initial_accumulator, -power
        self._l1, self._l2, self._l2_shrinkage = l1, l2, l2_shrinkage

    def new_state(self, weight: Tensor) -> dict[str, Tensor]:
        """Return the first sums, and linear terms of zero."""
        squares = torch.full_like(weight, self._initial)
        return {"squares": squares, "linear": torch.zeros_like(weight)}

    def move(self, weight: Tensor, grad: Tensor, state: dict[str, Tensor], *, lr: float) -> None:
        """Solve for the weights that would have been best so far."""
        squares, linear = state["squares"], state["linear"]
        before = squares.pow(self._power)
        squares.addcmul_(grad, grad)
        now = squares.pow(self._power)
        linear.add_(grad + 2 * self._l2_shrinkage * weight).sub_((now - before) / lr * weight)
        excess = (linear.abs() - self._l1).clamp_(min=0)
        weight.copy_(-linear.sign() * excess / (now / lr + 2 * self._l2))


def corrected_rate(lr: float, step: int, *, beta1: float, beta2: float) -> float:
    """Return the rate of step ``step``, from 1 on, corrected for moments that began at zero."""
    return lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
