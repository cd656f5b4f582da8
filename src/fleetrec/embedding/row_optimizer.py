"""Optimizers of table rows: they touch the rows of a batch and no others."""

# Shape suffixes: N rows, D width of a row.

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from fleetrec.config.job import OptimizerName


class RowOptimizer(Protocol):
    """Moves some rows; owns no memory. ``state_dims`` names its state, width 0 meaning ``dim``."""

    state_dims: Mapping[str, int]

    def update(
        self, rows_ND: Tensor, state: Mapping[str, Tensor], grads_ND: Tensor, *, lr: float
    ) -> None:
        """Apply one gradient to each row, changing rows and state in place."""
        ...


class Sgd:
    """Plain gradient descent."""

    state_dims: Mapping[str, int] = {}

    def update(
        self, rows_ND: Tensor, state: Mapping[str, Tensor], grads_ND: Tensor, *, lr: float
    ) -> None:
        """Apply one gradient to each row."""
        assert not state
        rows_ND.add_(grads_ND, alpha=-lr)


class Adagrad:
    """Adagrad, one accumulator per element."""

    state_dims: Mapping[str, int] = {"sum": 0}
    eps = 1e-6

    def update(
        self, rows_ND: Tensor, state: Mapping[str, Tensor], grads_ND: Tensor, *, lr: float
    ) -> None:
        """Apply one gradient to each row."""
        state["sum"].addcmul_(grads_ND, grads_ND)
        rows_ND.addcdiv_(grads_ND, state["sum"].sqrt().add_(self.eps), value=-lr)


class LazyAdam:
    """Adam that lets rows without a gradient rest; each row counts its own steps."""

    state_dims: Mapping[str, int] = {"exp_avg": 0, "exp_avg_sq": 0, "step": 1}
    beta1, beta2, eps = 0.9, 0.999, 1e-8

    def update(
        self, rows_ND: Tensor, state: Mapping[str, Tensor], grads_ND: Tensor, *, lr: float
    ) -> None:
        """Apply one gradient to each row."""
        step_N1 = state["step"].add_(1)
        state["exp_avg"].lerp_(grads_ND, 1 - self.beta1)
        state["exp_avg_sq"].mul_(self.beta2).addcmul_(grads_ND, grads_ND, value=1 - self.beta2)
        correction1_N1 = 1 - self.beta1 ** step_N1.to(torch.float64)
        correction2_N1 = 1 - self.beta2 ** step_N1.to(torch.float64)
        denominator_ND = (state["exp_avg_sq"] / correction2_N1).sqrt().add_(self.eps)
        rows_ND.sub_(lr * (state["exp_avg"] / correction1_N1) / denominator_ND)


def row_optimizer(name: OptimizerName) -> RowOptimizer:
    """Return the optimizer of that name."""
    optimizers: dict[OptimizerName, RowOptimizer] = {
        "sgd": Sgd(),
        "adagrad": Adagrad(),
        "adam": LazyAdam(),
    }
    return optimizers[name]
