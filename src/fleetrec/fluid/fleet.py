"""The fleet of programs that record layers: the process's one fleet, with Fluid's arguments."""

from collections.abc import Sequence
from typing import Any

from fleetrec import fleet
from fleetrec.core.errors import ConfigError
from fleetrec.fleet.role_maker import RoleMaker
from fleetrec.fleet.strategy import Strategy
from fleetrec.fluid import io
from fleetrec.fluid.executor import Executor
from fleetrec.fluid.graph import Program, Variable
from fleetrec.fluid.missing import missing
from fleetrec.fluid.optimizer import Optimizer, check_minimize, warn_of_dense_tables
from fleetrec.fluid.training import Training, add_training

SAME = (
    "is_worker",
    "is_server",
    "is_first_worker",
    "worker_index",
    "server_index",
    "worker_num",
    "server_num",
    "worker_endpoints",
    "server_endpoints",
    "init_server",
    "run_server",
    "stop_worker",
    "exchange",
    "barrier_worker",
    "util",
)
OWN = (
    "main_program",
    "startup_program",
    "init",
    "distributed_optimizer",
    "init_worker",
    "split_files",
    "save_persistables",
    "save_inference_model",
)


class Fleet:
    """One process of a job."""

    def __init__(self) -> None:
        self._training: Training | None = None

    def __getattr__(self, name: str) -> Any:
        if name in SAME:
            return getattr(fleet, name)
        return missing("fleet", (*OWN, *SAME))(name)

    @property
    def main_program(self) -> Program:
        """Return the program that is minimized."""
        return self._minimized().main

    @property
    def startup_program(self) -> Program:
        """Return its startup program."""
        return self._minimized().startup

    def init(self, role_maker: RoleMaker | None = None) -> None:
        """Find out who this process is; without a role maker, from the environment."""
        fleet.init(role_maker)

    def distributed_optimizer(
        self, optimizer: Optimizer, strategy: Strategy | None = None
    ) -> "DistributedOptimizer":
        """Return an optimizer that runs on the servers; without a strategy workers are in sync."""
        if not isinstance(optimizer, Optimizer):
            raise ConfigError(
                [f"distributed_optimizer: expected one of fluid.optimizer, got {optimizer!r}"]
            )
        return DistributedOptimizer(optimizer, strategy, self)

    def init_worker(self) -> None:
        """Connect to the servers; the first worker sends them the initial weights."""
        self._minimized().build()
        fleet.init_worker()

    def split_files(self, files: Sequence[str]) -> list[str]:
        """Return this worker's block of a list."""
        return fleet.util.get_file_shard(files)

    def save_persistables(
        self, executor: Executor, dirname: str, main_program: Program | None = None
    ) -> None:
        """Publish a checkpoint; the first worker does, the others may call it too."""
        io.save_persistables(executor, dirname, main_program)

    def save_inference_model(
        self,
        executor: Executor,
        dirname: str,
        feeded_var_names: Sequence[str],
        target_vars: Sequence[Variable],
        main_program: Program | None = None,
    ) -> None:
        """Publish an inference model; the first worker does, the others may call it too."""
        io.save_inference_model(dirname, feeded_var_names, target_vars, executor, main_program)

    def register(self, training: Training) -> None:
        """Remember what the workers are to train."""
        self._training = training

    def _minimized(self) -> Training:
        if self._training is None:
            raise ConfigError(["fleet: first minimize with fleet.distributed_optimizer"])
        return self._training


class DistributedOptimizer:
    """An optimizer that runs on servers."""

    def __init__(self, optimizer: Optimizer, strategy: Strategy | None, owner: Fleet) -> None:
        self._optimizer = optimizer
        self._for_fleet = fleet.distributed_optimizer(optimizer.for_fleet, strategy)
        self._owner = owner

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> None:
        """Train on the loss with servers, after fleet.init_worker."""
        check_minimize(parameter_list, no_grad_set)
        training = Training(
            loss, self._for_fleet.minimize, startup=startup_program, is_distributed=True
        )
        add_training(training)
        self._owner.register(training)
        warn_of_dense_tables(loss.program, self._optimizer.for_fleet)
