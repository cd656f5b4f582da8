"""The state behind ``from fleetrec import fleet``: who this process is, and what it trains."""

import contextlib
from collections.abc import Sequence

from fleetrec.config.job import ClusterOptions
from fleetrec.core.batch import Inputs
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.core.topology import Role, Topology
from fleetrec.data.memory import Exchange
from fleetrec.fleet.dataset import Dataset
from fleetrec.fleet.exchange import Alone, connected_workers
from fleetrec.fleet.optimizer import DistributedOptimizer, Optimizer
from fleetrec.fleet.program import Program, Watch
from fleetrec.fleet.role_maker import PaddleCloudRoleMaker, RoleMaker
from fleetrec.fleet.strategy import Strategy
from fleetrec.fleet.util import Util
from fleetrec.fleet.worker import connect
from fleetrec.parallel.server import ServerStrategy
from fleetrec.server.initial import initial_tables
from fleetrec.server.process import run_server

SAVED_WHOLE = (0, 2)  # all, base


class Fleet:
    """One process of a job."""

    def __init__(self) -> None:
        self._role_maker: RoleMaker | None = None
        self._known: Topology | None = None
        self._cluster = ClusterOptions(strategy="sync")  # as ever, where nothing is said
        self._program: Program | None = None
        self._strategy: ServerStrategy | None = None
        self._initial: str | None = None
        self._num_meetings = 0
        self.util = Util(self._topology, self._gather)

    def init(
        self,
        role_maker: RoleMaker | None = None,
        *,
        is_collective: bool = False,
        strategy: Strategy | None = None,
    ) -> None:
        """Find out who this process is; without a role maker, from the environment."""
        if is_collective:
            raise UnavailableError("fleet.init: is_collective is not available; use servers")
        self._role_maker = role_maker or PaddleCloudRoleMaker()
        self._known = self._role_maker.topology()
        if strategy is not None:
            self._cluster = strategy.options()

    # Who is who.

    def is_worker(self) -> bool:
        """Tell whether this process trains."""
        return self._topology().role == "worker"

    def is_server(self) -> bool:
        """Tell whether this process holds parameters."""
        return self._topology().role == "server"

    def is_first_worker(self) -> bool:
        """Tell whether this is worker 0, which saves."""
        return self.is_worker() and self._topology().index == 0

    def worker_index(self) -> int:
        """Return the number of this worker."""
        return self._index("worker")

    def server_index(self) -> int:
        """Return the number of this server."""
        return self._index("server")

    def worker_num(self) -> int:
        """Return how many workers the job has."""
        return self._topology().num_workers

    def server_num(self) -> int:
        """Return how many servers the job has."""
        return self._topology().num_servers

    def server_endpoints(self, *, to_string: bool = False) -> list[str] | str:
        """Return where the servers listen, as a list or with commas between."""
        return _listed(self._topology().server_endpoints, to_string=to_string)

    def worker_endpoints(self, *, to_string: bool = False) -> list[str] | str:
        """Return where workers listen, if whoever started them has said so."""
        self._topology()
        assert self._role_maker is not None
        return _listed(self._role_maker.worker_endpoints(), to_string=to_string)

    # Servers and workers.

    def init_server(self, dirname: str | None = None) -> None:
        """Say with which rows the server begins: those of a checkpoint, or none."""
        self._index("server")
        if dirname is not None:
            self._initial = str(dirname)
            initial_tables(self._initial)  # a wrong path is told now, not when workers come

    def run_server(self) -> None:
        """Serve until all workers have stopped, or the process is told to end."""
        self._index("server")
        run_server(self._topology(), initial=self._initial)

    def init_worker(self) -> None:
        """Connect to the servers; the first worker brings the first weights."""
        self._index("worker")
        if self._program is None:
            raise RuntimeError("fleet.init_worker(): first minimize with a distributed_optimizer")
        self._strategy = connect(self._program, self._topology())

    def stop_worker(self) -> None:
        """Say that this worker needs the servers no more."""
        if self._strategy is not None:
            self._strategy.finish()
            self._strategy.close()
            self._strategy = None

    # Training.

    def distributed_optimizer(
        self, optimizer: Optimizer, strategy: Strategy | None = None
    ) -> DistributedOptimizer:
        """Let an optimizer run on the servers; without a strategy all steps are made together."""
        self._topology()
        cluster = self._cluster if strategy is None else strategy.options()
        return DistributedOptimizer(optimizer, cluster, self._register)

    def train_from_dataset(
        self,
        program: Program,
        dataset: Dataset,
        *,
        fetch_list: Sequence[str] = (),
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        debug: bool = False,
    ) -> dict[str, float]:
        """Make one pass that learns; returns the figures of all workers together.

        ``fetch_list`` names figures that are printed every ``print_period`` batches and at the end,
        ``fetch_info`` how they are called there. ``debug`` measures where time goes.
        """
        fetches = _fetches(fetch_list, fetch_info)
        watch = Watch(fetches=fetches, print_period=print_period, shows_costs=debug)
        return program.train(dataset, watch)

    def infer_from_dataset(
        self,
        program: Program,
        dataset: Dataset,
        *,
        fetch_list: Sequence[str] = (),
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        debug: bool = False,
    ) -> dict[str, float]:
        """Make one pass that learns nothing; otherwise as ``train_from_dataset``."""
        fetches = _fetches(fetch_list, fetch_info)
        watch = Watch(fetches=fetches, print_period=print_period, shows_costs=debug)
        return program.infer(dataset, watch)

    def exchange(self, inputs: Inputs) -> contextlib.AbstractContextManager[Exchange]:
        """Give the way of samples between workers, for InMemoryDataset.global_shuffle."""
        if self._known is None:
            return contextlib.nullcontext(Alone())
        if self._program is not None and self._program.is_restarted:
            raise UnavailableError(
                "global_shuffle: this worker was restarted, and its samples are with the others; "
                "start the job again"
            )
        return connected_workers(self._known, inputs, self._gather)

    # Models on disk.

    def save_persistables(self, program: Program, dirname: str, mode: int = 0) -> None:
        """Publish a checkpoint; the first worker does, for the others there is nothing to do."""
        if mode not in SAVED_WHOLE:
            raise UnavailableError(f"save_persistables: mode {mode} is not available; use 0 (all)")
        if self._acts(program):
            program.save(str(dirname))

    def save_inference_model(
        self,
        program: Program,
        dirname: str,
        feeded_var_names: Sequence[str] = (),
        target_vars: Sequence[str] = (),
    ) -> None:
        """Publish an inference model with the named inputs and outputs; none means all."""
        if self._acts(program):
            program.save_inference(str(dirname), feeds=feeded_var_names, fetches=target_vars)

    def load_model(self, program: Program, dirname: str) -> None:
        """Take up weights and rows of a checkpoint; every worker has to call it."""
        if self._acts(program):
            program.load(str(dirname))
        if program.cluster is not None:
            self.barrier_worker()

    def shrink(self, program: Program) -> None:
        """Give up rows by the rules of their tables; every worker has to call it."""
        program.shrink()

    def barrier_worker(self) -> None:
        """Wait until all workers are here."""
        self.util.barrier()

    def _acts(self, program: Program) -> bool:
        """Tell whether it is for this worker to save or load, and not yet done."""
        if program.cluster is None:
            return True
        return self.is_first_worker() and not program.is_behind

    def _index(self, role: Role) -> int:
        topology = self._topology()
        if topology.role != role:
            raise RuntimeError(f"fleet: this is for a {role}; this process is a {topology.role}")
        return topology.index

    def _gather(self, content: bytes) -> list[bytes]:
        if self._strategy is None or self._program is None:
            raise RuntimeError("workers meet between fleet.init_worker() and fleet.stop_worker()")
        self._num_meetings += 1
        if not self._program.is_behind:
            name = f"fleet/{self._num_meetings}"
            return self._strategy.gather(name, content, number=self._program.epoch + 1)
        if content:
            raise UnavailableError(
                "fleet: this worker was restarted, and what the workers told each other before is "
                "gone; look at the results of train_from_dataset, which is empty for past passes"
            )
        return [b""] * self._topology().num_workers

    def _topology(self) -> Topology:
        if self._known is None:
            raise RuntimeError("call fleet.init() first")
        return self._known

    def _register(self, program: Program) -> None:
        if self._program is not None:
            raise ConfigError(["fleet: the servers of a job hold one model, and have one already"])
        self._program = program


def _fetches(names: Sequence[str], labels: Sequence[str] | None) -> dict[str, str]:
    if labels is not None and len(labels) != len(names):
        raise ConfigError([f"fetch_info: expected {len(names)} names, got {len(labels)}"])
    return dict(zip(names, labels or names, strict=True))


def _listed(endpoints: Sequence[str], *, to_string: bool) -> list[str] | str:
    return ",".join(endpoints) if to_string else list(endpoints)
