"""Geo mode: workers train by themselves and exchange differences every few steps."""

# Shape suffixes: N ids, D width of a row, P numbers of the dense network.

import contextlib
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import ConfigError
from fleetrec.core.progress import Progress
from fleetrec.embedding.lookup import LookedUp
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import (
    RemoteLookup,
    Rows,
    RowUpdate,
    UniqueIds,
)
from fleetrec.embedding.table import RowOptimizer, TableConfig
from fleetrec.models.base import Model
from fleetrec.parallel.dense_local import LocalDense
from fleetrec.parallel.flat import Floats
from fleetrec.parallel.rows import ClickLabels, PassEnd
from fleetrec.parallel.rows_local import LocalRows
from fleetrec.parallel.rows_server import servers_weights
from fleetrec.parallel.worker_session import WorkerSession
from fleetrec.server.parameter_client import StepUpdate
from fleetrec.server.wire import Array

# Under this optimizer a server adds what it gets, with the sign reversed.
ADD = OptimizerOptions(name="sgd", lr=1.0)


class GeoRows:
    """Rows of this worker's own, beside those of the servers.

    ``base`` is what this worker believes the servers have. Every ``push_steps`` steps it sends
    (own - base) / num_workers, which the servers add. When a row, or the dense network, occurs for
    the first time after that, the changes of others are pulled: own += server - base. The rest of
    (own - base) is sent at the end of a pass.
    """

    def __init__(  # noqa: PLR0913 (own rows and those of the servers)
        self,
        session: WorkerSession,
        local: LocalRows,
        stores: Mapping[str, NativeStore],
        *,
        seed: int,
        num_workers: int,
        push_steps: int,
        frozen: Collection[str],
    ) -> None:
        collection = session.model.embedding_collection()
        _check_sparse(collection.tables.values())
        self._session = session
        self._local = local
        self._stores = stores
        self._num_workers = num_workers
        self._push_steps = push_steps
        self._lookup = RemoteLookup(collection, session.client.stores, frozen=frozen)
        self._click_labels = ClickLabels(session.model)
        self._base_rows = {
            name: NativeStore(table, RowOptimizer(name=ADD.name), seed=seed)
            for name, table in collection.tables.items()
        }
        self._base_P: Floats | None = None
        # The push of batch n has sequence 2n; the rest after it has 2n + 1.
        self._num_batches = session.sequence // 2
        self._payload = b""
        self._reset_round()

    @property
    def prefetches(self) -> bool:
        """Return False: most rows are here already."""
        return False

    def prefetch(self, batch: Batch) -> None:
        """Do nothing."""

    def start_prefetch(self) -> None:
        """Do nothing."""

    def pull(self, batch: Batch, *, training: bool) -> LookedUp:
        """Look up the vectors of a batch: own ones in training, those of the servers else."""
        if not training:
            return self._lookup.fetch(batch, self._read_servers, training=False)
        ids = self._lookup.list_ids(batch, labels_B=self._click_labels(batch))
        self._pull_remote_changes({name: its.ids_N for name, its in ids.items()})
        for name, its in ids.items():
            self._touched[name].append(its)
        return self._local.pull(batch, training=True)

    def grad_square_sum(self, batch: Batch, looked_up: LookedUp) -> float:
        """Return the sum of squares of the gradients of all rows of this worker's batch."""
        return self._local.grad_square_sum(batch, looked_up)

    def push(
        self,
        batch: Batch,
        looked_up: LookedUp,
        *,
        step: int,
        scale: float,
        progress: Progress,
    ) -> None:
        """Update own rows, and send differences to the servers if they are due."""
        self._local.push(batch, looked_up, step=step, scale=scale, progress=progress)
        self._num_batches += 1
        self._num_unsent += 1
        self._num_samples += batch.num_samples
        self._event_time = batch.event_time
        self._payload = self._session.payload(progress)
        if self._num_batches % self._push_steps == 0:
            self._push_touched()

    def end_pass(self, end: PassEnd) -> None:
        """Send all that the servers do not have yet, then end the pass as other workers do."""
        if self._num_unsent:
            self._push_touched()
        self._push_all()
        self._session.end_pass(end)
        self._local.end_pass(end)
        self._reset_round()

    def num_pending_pushes(self) -> int:
        """Return how many steps the servers do not have yet."""
        return self._num_unsent

    def flush(self) -> None:
        """Return when the servers have what was sent; differences wait for their round."""
        self._session.sender.flush()

    def _reset_round(self) -> None:
        self._num_unsent = 0
        self._num_samples = 0
        self._event_time = 0
        self._is_dense_synced = False
        self._touched: dict[str, list[UniqueIds]] = {name: [] for name in self._stores}
        self._synced_ids: dict[str, Array] = {n: np.zeros(0, np.int64) for n in self._stores}

    def _read_servers(
        self,
        listed: Mapping[str, UniqueIds],
        *,
        training: bool,  # noqa: ARG002
    ) -> Mapping[str, Rows]:
        wanted = {name: its.ids_N for name, its in listed.items()}
        return self._session.client.pull(wanted, sequence=0, wants_dense=False)[0]

    def _pull_remote_changes(self, ids: Mapping[str, Array]) -> None:
        """Add what others did to the rows that occur for the first time in this round."""
        new = {
            name: np.setdiff1d(ids_N, self._synced_ids[name], assume_unique=True)
            for name, ids_N in ids.items()
        }
        if self._is_dense_synced and not any(map(len, new.values())):
            return
        rows, dense_P = self._session.client.pull(
            new,
            sequence=self._num_batches + 1,  # not 0, so that missing rows come as new ones
            wants_dense=not self._is_dense_synced,
        )
        for name, new_N in new.items():
            self._add_row_changes(name, new_N, rows[name].rows_ND)
            self._synced_ids[name] = np.concatenate([self._synced_ids[name], new_N])
        if not self._is_dense_synced:
            self._add_dense_changes(dense_P.copy())
            self._is_dense_synced = True

    def _add_row_changes(self, name: str, ids_N: Array, server_ND: Array) -> None:
        own, base = self._stores[name].table, self._base_rows[name].table
        base_ND, _ = base.read(ids_N, as_new=True)
        changed_N = np.flatnonzero((server_ND != base_ND).any(axis=1))
        if len(changed_N):
            own_ND, _ = own.read(ids_N[changed_N], as_new=True)
            own_ND += server_ND[changed_N] - base_ND[changed_N]
            own.write(ids_N[changed_N], own_ND)
            base.write(ids_N[changed_N], server_ND[changed_N])

    def _add_dense_changes(self, server_P: Floats) -> None:
        flat = self._session.flat
        own_P = server_P if self._base_P is None else flat.values() + (server_P - self._base_P)
        flat.set_values(own_P)
        self._base_P = server_P

    def _push_touched(self) -> None:
        """Send a share of what changed in this round."""
        share = np.float32(1.0 / self._num_workers)
        tables = {
            name: self._difference(name, _union(parts), share)
            for name, parts in self._touched.items()
            if parts
        }
        self._send(tables, share, sequence=2 * self._num_batches)
        self._reset_round()

    def _push_all(self) -> None:
        """Send everything by which own rows and base differ.

        Without further training, repeated rounds would send just this, in ever smaller parts.
        """
        one = np.float32(1.0)
        tables = {}
        for name, store in self._stores.items():
            ids_N = store.table.snapshot()["ids"]
            unseen_N = np.zeros(len(ids_N), np.uint32)
            every = UniqueIds(ids_N=ids_N, shows_N=unseen_N, clicks_N=unseen_N)
            tables[name] = self._difference(name, every, one)
        self._send(tables, one, sequence=2 * self._num_batches + 1)

    def _difference(self, name: str, ids: UniqueIds, share: np.float32) -> RowUpdate:
        own, base = self._stores[name].table, self._base_rows[name].table
        own_ND, _ = own.read(ids.ids_N, as_new=True)
        base_ND, _ = base.read(ids.ids_N, as_new=True)
        delta_ND = (own_ND - base_ND) * share
        base.write(ids.ids_N, base_ND + delta_ND)
        return RowUpdate(ids=ids, grads_MD=-delta_ND)

    def _send(self, tables: dict[str, RowUpdate], share: np.float32, *, sequence: int) -> None:
        if self._base_P is None:  # no step was made yet
            return
        delta_P = (self._session.flat.values() - self._base_P) * share
        self._base_P = self._base_P + delta_P
        update = StepUpdate(
            progress=self._payload,
            num_samples=self._num_samples or 1,
            event_time=self._event_time,
            grads_P=-delta_P,
            tables=tables,
        )
        self._session.send(update, sequence=sequence)
        self._session.sender.flush()


class GeoDense(LocalDense):
    """The dense network of a worker, updated by its own optimizer; evaluated as the servers' is."""

    def __init__(self, session: WorkerSession) -> None:
        super().__init__(session.model, session.plan)
        self._session = session

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        """Let the model have the weights of the servers, and its own ones afterwards."""
        return servers_weights(self._session)


def _union(parts: list[UniqueIds]) -> UniqueIds:
    """Return every id once, with the sums of its impressions and clicks."""
    ids_N = np.concatenate([part.ids_N for part in parts])
    unique_N, index_N = np.unique(ids_N, return_inverse=True)

    def summed(counts: list[Array]) -> Array:
        weights = np.concatenate(counts)
        return np.bincount(index_N, weights=weights, minlength=len(unique_N)).astype(np.uint32)

    return UniqueIds(
        ids_N=unique_N,
        shows_N=summed([part.shows_N for part in parts]),
        clicks_N=summed([part.clicks_N for part in parts]),
    )


def check_admission(model: Model) -> None:
    """Refuse tables that admit only some ids: a worker of its own gives every id a row."""
    tables = model.embedding_collection().tables
    with_admission = [name for name, t in tables.items() if t.admission.kind != "always"]
    if with_admission:
        raise ValueError(
            f"distribute_strategy: geo gives every id a row, but {', '.join(with_admission)} "
            "admits only some; use async, or leave admission out"
        )
    short = [name for name, table in tables.items() if table.long_vector is not None]
    if short:
        raise ValueError(
            f"distribute_strategy: geo trains copies of whole rows, but {', '.join(short)} has an "
            "embedx_threshold; use async, or leave it out"
        )


def _check_sparse(tables: Iterable[TableConfig]) -> None:
    dense = [table.name for table in tables if table.is_dense]
    if dense:
        raise ConfigError(
            [
                f"distribute_strategy: geo sends the rows of a batch only, but is_sparse: False "
                f"changes every row of {', '.join(dense)} in each step; choose another strategy, "
                "or set is_sparse: True"
            ]
        )
