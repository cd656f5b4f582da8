"""Follow the regularised leader."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from fleetrec.optim.formula import Formula


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
        """Set the weights to the minimum of the regularised sum of past losses."""
        squares, linear = state["squares"], state["linear"]
        before = squares.pow(self._power)
        squares.addcmul_(grad, grad)
        now = squares.pow(self._power)
        linear.add_(grad + 2 * self._l2_shrinkage * weight).sub_((now - before) / lr * weight)
        excess = (linear.abs() - self._l1).clamp_(min=0)
        weight.copy_(-linear.sign() * excess / (now / lr + 2 * self._l2))
