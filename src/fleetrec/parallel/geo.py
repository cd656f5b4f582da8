"""Workers that learn on their own and exchange, every so many steps, what they have learnt."""

# Shape suffixes: N ids, D width of a row, P numbers of the dense network.

from collections.abc import Collection, Mapping

import numpy as np
import torch

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import ConfigError
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import RowUpdate, UniqueIds
from fleetrec.embedding.table import RowOptimizer
from fleetrec.models.base import Model
from fleetrec.parallel.cluster import Cluster
from fleetrec.parallel.kept import join_kept
from fleetrec.parallel.server import ServerStrategy
from fleetrec.parallel.single import SingleStrategy
from fleetrec.parallel.strategy import Step
from fleetrec.server.link import Step as Told
from fleetrec.server.wire import Array

# A server under this rule adds what it gets, with the sign turned around.
ADD = OptimizerOptions(name="sgd", lr=1.0)


class GeoStrategy(ServerStrategy):
    """A worker with rows, dense network and optimizer of its own.

    ``old`` is what the worker believes the servers have. Every ``geo_push_steps`` steps it sends
    one of ``num_workers`` parts of (own - old), which the servers add. When it meets a row, or the
    dense network, for the first time after that, it takes over what others did: own += server -
    old. What is left of (own - old) at the end of a pass is sent as a whole.
    """

    def __init__(
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        device: torch.device,
        seed: int,
        cluster: Cluster,
        frozen: Collection[str] = (),
    ) -> None:
        _check_admission(model)
        super().__init__(
            model,
            optimizer=ADD,
            device=device,
            seed=seed,
            cluster=cluster,
            frozen=frozen,
            own_optimizers=False,
        )
        self._own = SingleStrategy(
            model, optimizer=optimizer, device=device, seed=seed, frozen=frozen
        )
        self._old = {
            name: NativeStore(table, RowOptimizer(name=ADD.name), seed=seed)
            for name, table in self._tables.items()
        }
        self._old_P: Array | None = None
        self._num_workers = cluster.place.num_workers
        self._push_steps = cluster.geo_push_steps
        self._num_batches = self._sequence // 2  # a push of batch n is 2n; the rest after it 2n + 1
        self._begin_round()

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch here, and tell the servers if it is time."""
        self._seed_step(self._num_batches + 1)
        labels_B = batch.label(self._model.tasks[0].label) if self._counts_clicks else None
        listed = self._lookup.list_ids(batch, labels_B=labels_B)
        self._take_over({name: its.ids_N for name, its in listed.items()})
        step = self._own.train_step(batch)
        self.before_push(batch, step)
        for name, its in listed.items():
            self._seen[name].append(its)
        self._num_batches += 1
        self._num_unsent += 1
        self._num_samples += batch.num_samples
        self._event_time = batch.event_time
        if self._num_batches % self._push_steps == 0:
            self._push(1.0 / self._num_workers, sequence=2 * self._num_batches)
        return step

    def end_pass(self, *, epoch: int) -> None:
        """Send all that servers do not have yet; then as other workers do."""
        if self._num_samples:
            self._push(1.0 / self._num_workers, sequence=2 * self._num_batches)
        self._push_rest()
        super().end_pass(epoch=epoch)
        self._own.end_pass(epoch=epoch)
        self._begin_round()

    def num_waiting(self) -> int:
        """Return how many steps the servers have heard nothing of."""
        return self._num_unsent

    def _begin_round(self) -> None:
        self._num_unsent = 0
        self._num_samples = 0
        self._event_time = 0
        self._is_dense_fresh = False
        self._seen: dict[str, list[UniqueIds]] = {name: [] for name in self._tables}
        self._fresh: dict[str, Array] = {name: np.zeros(0, np.int64) for name in self._tables}

    def _take_over(self, ids: Mapping[str, Array]) -> None:
        """Take up what others did to rows that occur for the first time in this round."""
        new = {
            name: np.setdiff1d(ids_N, self._fresh[name], assume_unique=True)
            for name, ids_N in ids.items()
        }
        if self._is_dense_fresh and not any(map(len, new.values())):
            return
        rows, dense_P = self._link.pull(
            new,
            sequence=self._num_batches + 1,  # not 0, so that rows nobody has come as new ones
            wants_dense=not self._is_dense_fresh,
        )
        for name, new_N in new.items():
            self._take_rows(name, new_N, rows[name].rows_ND)
            self._fresh[name] = np.concatenate([self._fresh[name], new_N])
        if not self._is_dense_fresh:
            self._take_dense(dense_P.copy())
            self._is_dense_fresh = True

    def _take_rows(self, name: str, ids_N: Array, server_ND: Array) -> None:
        own, old = self._own.stores[name].table, self._old[name].table
        old_ND, _ = old.read(ids_N, as_new=True)
        changed_N = np.flatnonzero((server_ND != old_ND).any(axis=1))
        if len(changed_N):
            own_ND, _ = own.read(ids_N[changed_N], as_new=True)
            news_ND = server_ND[changed_N]
            own_ND += news_ND - old_ND[changed_N]
            own.write(ids_N[changed_N], own_ND)
            old.write(ids_N[changed_N], news_ND)

    def _take_dense(self, server_P: Array) -> None:
        own_P = server_P if self._old_P is None else self._flat.values() + (server_P - self._old_P)
        self._flat.set_values(own_P)
        self._old_P = server_P

    def _push(self, share: float, *, sequence: int) -> None:
        """Send a share of what was learnt in this round."""
        tables = {}
        for name, parts in self._seen.items():
            if parts:
                tables[name] = self._row_step(name, _union(parts), np.float32(share))
        self._send(tables, np.float32(share), sequence=sequence)
        self._begin_round()

    def _push_rest(self) -> None:
        """Send everything by which own and old differ.

        Without further training, repeated rounds would send just this, ever smaller parts of it.
        """
        tables = {}
        for name, store in self._own.stores.items():
            ids_N = store.table.snapshot()["ids"]
            unseen_N = np.zeros(len(ids_N), np.uint32)
            whole = UniqueIds(ids_N=ids_N, shows_N=unseen_N, clicks_N=unseen_N)
            tables[name] = self._row_step(name, whole, np.float32(1.0))
        self._num_samples = self._num_samples or 1
        self._send(tables, np.float32(1.0), sequence=2 * self._num_batches + 1)

    def _row_step(self, name: str, seen: UniqueIds, share: np.float32) -> RowUpdate:
        own, old = self._own.stores[name].table, self._old[name].table
        own_ND, _ = own.read(seen.ids_N, as_new=True)
        old_ND, _ = old.read(seen.ids_N, as_new=True)
        delta_ND = (own_ND - old_ND) * share
        old.write(seen.ids_N, old_ND + delta_ND)
        return RowUpdate(ids=seen, grads_MD=-delta_ND)

    def _send(self, tables: Mapping[str, RowUpdate], share: np.float32, *, sequence: int) -> None:
        if self._old_P is None:  # nothing was learnt yet
            return
        delta_P = (self._flat.values() - self._old_P) * share
        self._old_P = self._old_P + delta_P
        told = Told(
            progress=join_kept(self._progress, self._model),
            num_samples=self._num_samples,
            event_time=self._event_time,
            grads_P=-delta_P,
            tables=tables,
        )
        self._sender.send(told, sequence=sequence)
        self._sender.flush()
        self._sequence = sequence


def _union(parts: list[UniqueIds]) -> UniqueIds:
    """Return every id once, with all its shows and clicks."""
    ids_N = np.concatenate([part.ids_N for part in parts])
    unique_N, places_N = np.unique(ids_N, return_inverse=True)

    def summed(counts: list[Array]) -> Array:
        return np.bincount(
            places_N, weights=np.concatenate(counts), minlength=len(unique_N)
        ).astype(np.uint32)

    return UniqueIds(
        ids_N=unique_N,
        shows_N=summed([part.shows_N for part in parts]),
        clicks_N=summed([part.clicks_N for part in parts]),
    )


def _check_admission(model: Model) -> None:
    choosy = [
        name
        for name, table in model.embedding_collection().tables.items()
        if table.admission.kind != "always"
    ]
    if choosy:
        raise ConfigError(
            [
                f"distribute_strategy: geo gives every id a row, but {', '.join(choosy)} admits "
                "only some; use async, or leave admission out"
            ]
        )
