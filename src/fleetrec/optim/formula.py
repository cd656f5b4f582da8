"""Optimizers that are one formula over a parameter, its gradient and its state.

They equal the row optimizers of the same names, so that a weight is updated in the same way in the
dense network and in a table.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Formula(torch.optim.Optimizer):
    """Base class: applies ``move`` to every parameter that has a gradient."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters once."""
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
        """Update weight and state in place."""
