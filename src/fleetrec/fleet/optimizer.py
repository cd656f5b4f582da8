"""Optimizers by the names that programs use; ``minimize`` makes a program of a model."""

from collections.abc import Callable

from fleetrec.config.job import ClusterOptions, OptimizerName, OptimizerOptions
from fleetrec.core.place import Place
from fleetrec.fleet.program import Program
from fleetrec.models.base import Model
from fleetrec.parallel.join import join_group


class Optimizer:
    """How weights are updated, in the dense network and in the tables alike."""

    name: OptimizerName

    def __init__(
        self, learning_rate: float = 0.001, *, options: OptimizerOptions | None = None
    ) -> None:
        self.options = options or OptimizerOptions(name=self.name, lr=learning_rate)

    def minimize(self, model: Model, *, seed: int = 0) -> Program:
        """Return the program that trains a model in this process."""
        program = Program(model, optimizer=self.options, seed=seed)
        program.attach(join_group(program.run_options(), Place()))
        return program


class SGD(Optimizer):
    """Plain gradient descent."""

    name = "sgd"


class Adam(Optimizer):
    """Adam; rows of a table are updated only in steps that touch them."""

    name = "adam"


class Adagrad(Optimizer):
    """Adagrad."""

    name = "adagrad"


class DistributedOptimizer:
    """An optimizer that runs on servers."""

    def __init__(
        self, optimizer: Optimizer, cluster: ClusterOptions, register: Callable[[Program], None]
    ) -> None:
        self._optimizer = optimizer
        self._cluster = cluster
        self._register = register

    def minimize(self, model: Model, *, seed: int = 0) -> Program:
        """Return the program that trains a model with servers after fleet.init_worker.

        All workers must give the same seed.
        """
        options = self._optimizer.options
        program = Program(model, optimizer=options, seed=seed, cluster=self._cluster)
        self._register(program)
        return program
