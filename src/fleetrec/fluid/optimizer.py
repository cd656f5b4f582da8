"""Optimizers: ``minimize`` takes the variable of the loss."""

import logging
from typing import Any

from fleetrec.config.job import OptimizerName, OptimizerOptions
from fleetrec.fleet.optimizer import Optimizer as FleetOptimizer
from fleetrec.fluid.graph import Program, Variable
from fleetrec.fluid.missing import check_defaults, missing
from fleetrec.fluid.training import Training, add_training

logger = logging.getLogger(__name__)

__all__ = (
    "SGD",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "Momentum",
    "MomentumOptimizer",
    "SGDOptimizer",
)


class Optimizer:
    """How weights and rows are updated."""

    def __init__(
        self, name: OptimizerName, learning_rate: float, regularization: Any, **settings: float
    ) -> None:
        check_defaults(
            f"fluid.optimizer.{type(self).__name__}", {"regularization": (regularization, None)}
        )
        options = OptimizerOptions(name=name, lr=learning_rate, settings=settings)
        self.for_fleet = FleetOptimizer(learning_rate, options=options)

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> None:
        """Train on the loss in this process; ``startup_program`` may have a random_seed."""
        check_minimize(parameter_list, no_grad_set)
        add_training(
            Training(loss, self.for_fleet.minimize, startup=startup_program, is_distributed=False)
        )
        warn_of_dense_tables(loss.program, self.for_fleet)


class SGD(Optimizer):
    """Plain gradient descent."""

    def __init__(
        self, learning_rate: float, regularization: Any = None, name: str | None = None
    ) -> None:
        del name
        super().__init__("sgd", learning_rate, regularization)


class Momentum(Optimizer):
    """Gradient descent with a velocity."""

    def __init__(
        self,
        learning_rate: float,
        momentum: float,
        use_nesterov: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
        regularization: Any = None,
        name: str | None = None,
    ) -> None:
        del name
        check_defaults("fluid.optimizer.Momentum", {"use_nesterov": (use_nesterov, False)})
        super().__init__("momentum", learning_rate, regularization, momentum=momentum)


class Adagrad(Optimizer):
    """Adagrad."""

    def __init__(
        self,
        learning_rate: float,
        epsilon: float = 1e-6,
        regularization: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        del name
        super().__init__(
            "adagrad",
            learning_rate,
            regularization,
            eps=epsilon,
            initial_accumulator=initial_accumulator_value,
        )


class Adam(Optimizer):
    """Adam; rows are updated only in steps that use them.

    With ``lazy_mode`` or other settings than the usual ones, the bias correction of rows counts the
    steps of the run; else those of the row.
    """

    def __init__(  # noqa: PLR0913 (those of Fluid)
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        regularization: Any = None,
        name: str | None = None,
        lazy_mode: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    ) -> None:
        del name
        if not lazy_mode and (beta1, beta2, epsilon) == (0.9, 0.999, 1e-8):
            super().__init__("adam", learning_rate, regularization)
            return
        super().__init__(
            "lazy_adam", learning_rate, regularization, beta1=beta1, beta2=beta2, eps=epsilon
        )


SGDOptimizer = SGD
MomentumOptimizer = Momentum
AdagradOptimizer = Adagrad
AdamOptimizer = Adam


def check_minimize(parameter_list: Any, no_grad_set: Any) -> None:
    """Raise an error for arguments of ``minimize`` that are not available."""
    check_defaults(
        "minimize",
        {"parameter_list": (parameter_list, None), "no_grad_set": (no_grad_set, None)},
    )


def warn_of_dense_tables(program: Program, optimizer: FleetOptimizer) -> None:
    """Warn where ``is_sparse=False`` would give other results in Fluid."""
    name = optimizer.options.name
    dense = [table for table, kept in program.tables.items() if not kept.is_sparse]
    if dense and name not in ("sgd", "adagrad"):
        logger.warning(
            "%s: is_sparse=False has no effect: %s updates rows only in steps that use them",
            ", ".join(dense),
            name,
        )


__getattr__ = missing("fluid.optimizer", __all__)
