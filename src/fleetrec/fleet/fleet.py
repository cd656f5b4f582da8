"""The state behind ``from fleetrec import fleet``: who this process is, and what it trains."""

import contextlib
from collections.abc import Sequence

from fleetrec.config.job import ClusterOptions
from fleetrec.core.batch import Inputs
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.core.place import Place, Role
from fleetrec.data.memory import Exchange
from fleetrec.fleet.dataset import Dataset
from fleetrec.fleet.exchange import SoloExchange, worker_exchange
from fleetrec.fleet.fetch import FetchOptions
from fleetrec.fleet.optimizer import DistributedOptimizer, Optimizer
from fleetrec.fleet.program import FOLDER, Program
from fleetrec.fleet.role_maker import PaddleCloudRoleMaker, RoleMaker
from fleetrec.fleet.strategy import Strategy
from fleetrec.fleet.util import Util
from fleetrec.parallel.join import join_group
from fleetrec.server.initial import initial_tables
from fleetrec.server.process import run_server

SAVED_WHOLE = (0, 2)  # all, base


class Fleet:
    """One process of a job."""

    def __init__(self) -> None:
        self._role_maker: RoleMaker | None = None
        self._known_place: Place | None = None
        self._cluster = ClusterOptions(strategy="sync")  # Paddle's default
        self._program: Program | None = None
        self._is_attached = False
        self._initial: str | None = None
        self._num_gathers = 0
        self.util = Util(self._place, self._gather)

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
        self._known_place = self._role_maker.place()
        if strategy is not None:
            self._cluster = strategy.options()

    # Who is who.

    def is_worker(self) -> bool:
        """Return whether this process trains."""
        return self._place().role == "worker"

    def is_server(self) -> bool:
        """Return whether this process holds parameters."""
        return self._place().role == "server"

    def is_first_worker(self) -> bool:
        """Return whether this is worker 0, which saves."""
        return self.is_worker() and self._place().rank == 0

    def worker_index(self) -> int:
        """Return the number of this worker."""
        return self._index("worker")

    def server_index(self) -> int:
        """Return the number of this server."""
        return self._index("server")

    def worker_num(self) -> int:
        """Return how many workers the job has."""
        return self._place().num_workers

    def server_num(self) -> int:
        """Return how many servers the job has."""
        return self._place().num_servers

    def server_endpoints(self, *, to_string: bool = False) -> list[str] | str:
        """Return where the servers listen, as a list or with commas between."""
        return _listed(self._place().server_endpoints, to_string=to_string)

    def worker_endpoints(self, *, to_string: bool = False) -> list[str] | str:
        """Return where workers listen, if the launcher or the program says so."""
        self._place()
        assert self._role_maker is not None
        return _listed(self._role_maker.worker_endpoints(), to_string=to_string)

    # Servers and workers.

    def init_server(self, dirname: str | None = None) -> None:
        """Set the rows that the server begins with: those of a checkpoint, or none."""
        self._index("server")
        if dirname is not None:
            self._initial = dirname
            initial_tables(self._initial)  # a wrong path is an error now, not when workers come

    def run_server(self) -> None:
        """Serve until all workers have stopped, or a signal comes."""
        self._index("server")
        run_server(self._place(), initial=self._initial)

    def init_worker(self) -> None:
        """Connect to the servers; the first worker sends them the initial weights."""
        self._index("worker")
        if self._program is None:
            raise RuntimeError("fleet.init_worker(): first minimize with a distributed_optimizer")
        place = self._place()
        group = join_group(self._program.run_options(), place)
        self._program.attach(group, journal=FOLDER.metric_journal(place))
        self._is_attached = True

    def stop_worker(self) -> None:
        """Disconnect: this worker needs the servers no more."""
        if self._is_attached and self._program is not None:
            self._program.detach(finished=True)
            self._is_attached = False

    # Training.

    def distributed_optimizer(
        self, optimizer: Optimizer, strategy: Strategy | None = None
    ) -> DistributedOptimizer:
        """Return an optimizer that runs on the servers; without a strategy workers are in sync."""
        self._place()
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
        """Make one training pass; returns the metrics of all workers.

        ``fetch_list`` names metrics that are printed every ``print_period`` batches and at the end,
        ``fetch_info`` their labels there. ``debug`` measures where time goes.
        """
        fetches = _fetches(fetch_list, fetch_info)
        fetch = FetchOptions(fetches=fetches, print_period=print_period, shows_costs=debug)
        return program.train(dataset, fetch)

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
        """Make one pass without training; otherwise as ``train_from_dataset``."""
        fetches = _fetches(fetch_list, fetch_info)
        fetch = FetchOptions(fetches=fetches, print_period=print_period, shows_costs=debug)
        return program.infer(dataset, fetch)

    def exchange(self, inputs: Inputs) -> contextlib.AbstractContextManager[Exchange]:
        """Connect the workers, for InMemoryDataset.global_shuffle."""
        if self._known_place is None:
            return contextlib.nullcontext(SoloExchange())
        if self._program is not None and self._program.is_restarted:
            raise UnavailableError(
                "global_shuffle: this worker was restarted, and its samples are with the others; "
                "start the job again"
            )
        return worker_exchange(self._known_place, inputs, self._gather)

    # Models on disk.

    def save_persistables(self, program: Program, dirname: str, mode: int = 0) -> None:
        """Publish a checkpoint; the first worker does, the others may call it too."""
        if mode not in SAVED_WHOLE:
            raise UnavailableError(f"save_persistables: mode {mode} is not available; use 0 (all)")
        program.save(dirname)

    def save_inference_model(
        self,
        program: Program,
        dirname: str,
        feeded_var_names: Sequence[str] = (),
        target_vars: Sequence[str] = (),
    ) -> None:
        """Publish an inference model with the named inputs and outputs; none means all."""
        program.save_inference(dirname, feeds=feeded_var_names, fetches=target_vars)

    def load_model(self, program: Program, dirname: str) -> None:
        """Load weights and rows of a checkpoint; every worker must call it."""
        program.load(dirname)

    def shrink(self, program: Program, threshold: int | None = None) -> None:
        """Evict rows by the rules of their tables; every worker must call it.

        With a ``threshold``, rows that were not seen for more than this number of days are evicted
        from every table. A pass counts as a day, and so does each call.
        """
        if threshold is not None and threshold < 0:
            raise ConfigError(
                [f"fleet.shrink: expected a threshold of at least 0, got {threshold}"]
            )
        program.shrink(max_unseen_days=threshold)

    def barrier_worker(self) -> None:
        """Wait until all workers are here."""
        self.util.barrier()

    def _index(self, role: Role) -> int:
        place = self._place()
        if place.role != role:
            raise RuntimeError(f"fleet: this is for a {role}; this process is a {place.role}")
        return place.rank

    def _gather(self, content: bytes) -> list[bytes]:
        if self._program is None or not self._is_attached:
            raise RuntimeError(
                "workers communicate between fleet.init_worker() and fleet.stop_worker()"
            )
        self._num_gathers += 1
        if not self._program.is_replaying:
            key = f"fleet/{self._num_gathers}"
            index = self._program.pass_index
            return self._program.group.all_gather(content, key=key, pass_index=index)
        if content:
            raise UnavailableError(
                "fleet: this worker was restarted, and what the workers sent each other before is "
                "gone; look at the results of train_from_dataset, which is empty for past passes"
            )
        return [b""] * self._place().num_workers

    def _place(self) -> Place:
        if self._known_place is None:
            raise RuntimeError("call fleet.init() first")
        return self._known_place

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
