"""Adam with the constants and the eps of TensorFlow."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from fleetrec.optim.formula import Formula


class LazyAdam(Formula):
    """Adam whose eps is added to the uncorrected root of the second moment.

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
        """Update by the first moment over the root of the second."""
        beta1, beta2 = self._betas
        state["step"] += 1
        first = state["first"].lerp_(grad, 1 - beta1)
        second = state["second"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        rate = corrected_rate(lr, int(state["step"]), beta1=beta1, beta2=beta2)
        weight.mul_(1 - self._weight_decay)
        weight.addcdiv_(first, second.sqrt().add_(self._eps), value=-rate)


def corrected_rate(lr: float, step: int, *, beta1: float, beta2: float) -> float:
    """Return the rate of step ``step``, from 1 on, corrected for moments that began at zero."""
    return lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
