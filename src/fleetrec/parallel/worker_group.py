"""Workers of parameter servers: each makes steps of its own, the servers hold the model."""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import torch

from fleetrec.config.job import (
    CLIPPED_IN_SYNC,
    ClusterOptions,
    OptimizerOptions,
    needs_whole_gradient,
)
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.place import Place
from fleetrec.data.plan import DataShard
from fleetrec.embedding.native_store import NativeStore
from fleetrec.models.base import Model
from fleetrec.parallel import geo
from fleetrec.parallel.flat import FlatParameters
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.group import CHIEF, BuiltModel, Group, ModelOptions
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.rows_local import LocalRows
from fleetrec.parallel.rows_server import ServerDense, ServerRows
from fleetrec.parallel.server_state import ServerState
from fleetrec.parallel.solo import SoloGroup
from fleetrec.parallel.stepper import Stepper
from fleetrec.parallel.transfer import transfer_to
from fleetrec.parallel.worker_payload import decode_payload, latest_progress
from fleetrec.parallel.worker_session import WorkerSession
from fleetrec.server.client import ClientOptions
from fleetrec.server.parameter_client import ParameterClient, WorkerProgress
from fleetrec.server.spec import ServedModel

PsMode = Literal["sync", "async", "half_async", "geo"]

# Servers that are only read from need no optimizer state beside their rows.
READ_ONLY_OPTIMIZER = OptimizerOptions(name="sgd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Connection:
    """What a worker has once its model is known."""

    client: ParameterClient
    session: WorkerSession
    rows: ServerRows | geo.GeoRows
    progress: bytes
    has_started: bool
    num_passes: int


class WorkerGroup:
    """The workers of one run. For servers, every model that is built is one of its own."""

    def __init__(
        self,
        place: Place,
        options: ClusterOptions,
        *,
        device: torch.device,
        client: ClientOptions,
    ) -> None:
        self.device = device
        self._place = place
        self._options = options
        self._client_options = client
        self._connections: list[_Connection] = []  # by model

    @property
    def rank(self) -> int:
        """Return the number of this worker."""
        return self._place.rank

    @property
    def size(self) -> int:
        """Return the number of workers."""
        return self._place.num_workers

    @property
    def is_chief(self) -> bool:
        """Return whether this is the worker that publishes for all."""
        return self.rank == CHIEF

    @property
    def shard(self) -> DataShard:
        """Return this worker's part of the files."""
        return DataShard(index=self.rank, count=self.size, own_folder=self._place.own_data)

    @property
    def rule_group(self) -> Group | None:
        """Return a group of the chief alone: workers are at steps of their own."""
        return SoloGroup(self.device) if self.is_chief else None

    @property
    def num_restarts(self) -> int:
        """Return 0: a worker continues where the servers are."""
        return 0

    @property
    def num_passes_done(self) -> int:
        """Return how many passes all workers had finished when this process joined."""
        return min(connection.num_passes for connection in self._connected)

    @property
    def has_started(self) -> bool:
        """Return whether this worker took part in the start of the run before it was restarted."""
        return self._connected[0].has_started

    def all_gather(self, content: bytes, *, key: str, pass_index: int | None) -> list[bytes]:
        """Return the contents of all workers, in rank order; the first server keeps them."""
        number = 0 if pass_index is None else pass_index + 1
        return self._connected[0].client.all_gather(content, key=key, number=number)

    def broadcast(self, content: bytes, *, key: str, pass_index: int | None) -> bytes:
        """Return the content of the chief."""
        own = content if self.is_chief else b""
        return self.all_gather(own, key=key, pass_index=pass_index)[CHIEF]

    def any_rank(self, flag: bool) -> bool:  # noqa: FBT001
        """Return the flag: a worker may stop without the others."""
        return flag

    def align_steps(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:  # noqa: ARG002
        """Return the batches as they are: workers need not make equally many steps."""
        return batches

    def load_progress(self) -> bytes:
        """Return the progress of the last step that all servers have of this worker."""
        return latest_progress([connection.progress for connection in self._connected])

    def build(self, model: Model, options: ModelOptions) -> BuiltModel:
        """Connect to the servers; the chief describes the model to them."""
        self._check(model, options)
        model.to(self.device)
        frozen = freeze(model, model.embedding_collection().tables, options.frozen)
        plan = OptimizerPlan(model, options.optimizers)
        flat = FlatParameters(model, plan)
        client, before = self._connect(self._served(model, plan, flat, options), flat)
        session = WorkerSession(
            client,
            model,
            flat,
            plan,
            mode=self._options.strategy,
            communicator=self._options.communicator,
            before=before,
        )
        rows, dense = self._rows(session, options, frozen)
        progress, buffers = decode_payload(before.progress)
        connection = _Connection(
            client=client,
            session=session,
            rows=rows,
            progress=progress,
            has_started=bool(before.initial_progress or progress),
            num_passes=before.num_passes,
        )
        self._connections.append(connection)
        stepper = Stepper(
            model,
            rows,
            dense,
            transfer=transfer_to(self.device),
            update=options.update,
            seed=options.seed,
            rank=self.rank,
        )
        replaces_servers = self.is_chief and not self.has_started
        state = ServerState(session, replaces_servers=replaces_servers, buffers=buffers)
        return BuiltModel(stepper=stepper, state=state)

    def close(self, *, finished: bool) -> None:
        """Hang up; ``finished``: when no worker needs the servers any more, they end."""
        connections, self._connections = self._connections, []
        for connection in connections:
            if finished:
                connection.session.sender.flush()
                connection.client.finish()
            connection.session.close()
            if isinstance(connection.rows, ServerRows):
                connection.rows.close()
            connection.client.close()

    @property
    def _connected(self) -> list[_Connection]:
        assert self._connections, "build a model first"
        return self._connections

    def _is_geo(self, options: ModelOptions) -> bool:
        return options.trains and self._options.strategy == "geo"

    def _check(self, model: Model, options: ModelOptions) -> None:
        """Refuse what cannot be done with servers."""
        if self._is_geo(options):
            geo.check_admission(model)
        if needs_whole_gradient(options.update, self._options, self.size):
            raise ValueError(CLIPPED_IN_SYNC)

    def _connect(
        self, served: ServedModel, flat: FlatParameters
    ) -> tuple[ParameterClient, WorkerProgress]:
        """Connect to the servers of the next model; returns what they know of this worker."""
        options = dataclasses.replace(self._client_options, model=len(self._connections))
        client = ParameterClient(self._place, served, options)
        if self.is_chief:
            client.set_up(flat.values())
        return client, client.register()

    def _served(
        self, model: Model, plan: OptimizerPlan, flat: FlatParameters, options: ModelOptions
    ) -> ServedModel:
        tables = model.embedding_collection().tables
        optimizers = plan.optimizers
        configs = tuple(tables.values())
        if not options.trains or self._is_geo(options):  # servers store, or only add
            optimizer = geo.ADD if options.trains else READ_ONLY_OPTIMIZER
            optimizers = (optimizer,) * len(optimizers)
            configs = tuple(dataclasses.replace(table, own_optimizer=None) for table in configs)
        return ServedModel(
            tables=configs,
            table_optimizers=tuple(plan.index_of(name) for name in tables),
            dense_sizes=flat.sizes,
            optimizers=optimizers,
            seed=options.seed,
            mode="sync" if self._options.strategy == "sync" else "async",
        )

    def _rows(
        self, session: WorkerSession, options: ModelOptions, frozen: frozenset[str]
    ) -> tuple[ServerRows | geo.GeoRows, ServerDense | geo.GeoDense]:
        if self._is_geo(options):
            return self._geo(session, options, frozen)
        communicator = self._options.communicator
        interval = communicator.max_send_grad_num_before_recv
        rows = ServerRows(
            session,
            communicator=communicator,
            dense_interval=1 if self._options.strategy == "sync" else interval,
            frozen=frozen,
        )
        return rows, ServerDense(session, rows)

    def _geo(
        self, session: WorkerSession, options: ModelOptions, frozen: frozenset[str]
    ) -> tuple[geo.GeoRows, geo.GeoDense]:
        tables = session.model.embedding_collection().tables
        stores = {
            name: NativeStore(table, session.plan.row_optimizer(name), seed=options.seed)
            for name, table in tables.items()
        }
        rows = geo.GeoRows(
            session,
            LocalRows(session.model, stores, session.plan, frozen=frozen),
            stores,
            seed=options.seed,
            num_workers=self.size,
            push_steps=self._options.geo_push_steps,
            frozen=frozen,
        )
        return rows, geo.GeoDense(session)
