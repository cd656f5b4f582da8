"""Lookups whose rows are held by other processes."""

# Shape suffixes: N different ids of a batch, M of them with a gradient, D width of a row.

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fleetrec._native import BatchLookup
from fleetrec.core.batch import Batch
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.embedding.lookup import LookedUp, Lookup, arrays_of
from fleetrec.embedding.native_store import NativeStore

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIds:
    """The different ids of a batch in one table; how often each occurs, and with a click."""

    ids_N: Array
    shows_N: Array
    clicks_N: Array

    def at(self, places: Array) -> "UniqueIds":
        """Return some of them, in this order."""
        return UniqueIds(
            ids_N=self.ids_N[places], shows_N=self.shows_N[places], clicks_N=self.clicks_N[places]
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of listed ids, and which of them are there at all."""

    rows_ND: Array
    is_there_N: Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowUpdate:
    """What a batch does to one table: all ids that it saw, the first M of them with a gradient."""

    ids: UniqueIds
    grads_MD: Array


class Fetch(Protocol):
    """Gets rows from wherever they are."""

    def __call__(self, listed: Mapping[str, UniqueIds], *, training: bool) -> Mapping[str, Rows]:
        """Return the rows of ids by table; outside of training, missing ones are zeros."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchIds:
    """The different ids of a batch by table, and the lookups by group that found them."""

    lookups: Mapping[str, BatchLookup]
    listed: Mapping[str, UniqueIds]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchRows(BatchIds):
    """The ids of a batch and their rows, before vectors are made of them."""

    rows: Mapping[str, Rows]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLookedUp(LookedUp):
    """Vectors made of rows from elsewhere, and what a push will say about them."""

    listed: Mapping[str, UniqueIds]
    rows: Mapping[str, Rows]  # the lookups point into them


class RemoteLookup(Lookup):
    """Pools rows that are fetched for every batch, and sums gradients for sending them back."""

    def __init__(
        self,
        collection: EmbeddingCollection,
        stores: Mapping[str, NativeStore],
        *,
        frozen: Collection[str] = (),
    ) -> None:
        super().__init__(collection, stores, frozen=frozen)
        self._tables = {
            key: list(dict.fromkeys(feature.table for feature in group.features))
            for key, group in collection.groups.items()
        }

    def fetch(
        self, batch: Batch, fetch: Fetch, *, training: bool, labels_B: Tensor | None = None
    ) -> RemoteLookedUp:
        """Look up all vectors, with rows that ``fetch`` gets in one go for all tables."""
        fetched = self.prepare(batch, fetch, training=training, labels_B=labels_B)
        return self.look_up(fetched, training=training)

    def prepare(
        self, batch: Batch, fetch: Fetch, *, training: bool, labels_B: Tensor | None = None
    ) -> BatchRows:
        """Get the rows of a batch; another batch may be computed meanwhile, but none looked up."""
        listing = self.list_batch(batch, labels_B=labels_B)
        rows = fetch(listing.listed, training=training)
        return BatchRows(lookups=listing.lookups, listed=listing.listed, rows=rows)

    def list_batch(self, batch: Batch, *, labels_B: Tensor | None = None) -> BatchIds:
        """List the different ids of a batch, whose rows come later."""
        lookups = self._take(batch.ids)
        return BatchIds(lookups=lookups, listed=self._list(lookups, batch, labels_B))

    def look_up(self, fetched: BatchRows, *, training: bool) -> RemoteLookedUp:
        """Make vectors of rows that are there."""
        for key, lookup in fetched.lookups.items():
            its = [fetched.rows[table] for table in self._tables[key]]
            lookup.use([(one.rows_ND, one.is_there_N) for one in its])
        vectors = self._vectors(fetched.lookups, training=training)
        if not training:
            self._release(fetched.lookups)
        return RemoteLookedUp(
            vectors=vectors, lookups=fetched.lookups, listed=fetched.listed, rows=fetched.rows
        )

    def list_ids(self, batch: Batch, *, labels_B: Tensor | None = None) -> dict[str, UniqueIds]:
        """Return the different ids of a batch, by table; frozen tables are left out."""
        listing = self.list_batch(batch, labels_B=labels_B)
        self._release(listing.lookups)
        return {name: its for name, its in listing.listed.items() if name not in self._frozen}

    @property
    def table_names(self) -> list[str]:
        """Return the names of all tables, in the order in which ids are listed."""
        return [table for its in self._tables.values() for table in its]

    def _list(
        self, lookups: Mapping[str, BatchLookup], batch: Batch, labels_B: Tensor | None
    ) -> dict[str, UniqueIds]:
        labels = None if labels_B is None else labels_B.numpy()
        listed: dict[str, UniqueIds] = {}
        for key, lookup in lookups.items():
            with self.data_errors(key):
                lookup.list_ids(*arrays_of(batch.ids), labels=labels)
            for number, table in enumerate(self._tables[key]):
                ids_N, shows_N, clicks_N = lookup.listed(number)
                listed[table] = UniqueIds(ids_N=ids_N, shows_N=shows_N, clicks_N=clicks_N)
        return listed

    def sum(self, looked_up: RemoteLookedUp) -> dict[str, RowUpdate]:
        """Sum the gradient of the vectors per id, by table; frozen tables are left out."""
        steps: dict[str, RowUpdate] = {}
        for key, (lookup, pooled, sequences) in self._gradients(looked_up).items():
            sums = lookup.sum(pooled, sequences)
            for table, (ids_M, grads_MD) in zip(self._tables[key], sums, strict=True):
                if table not in self._frozen:
                    seen = _gradients_first(looked_up.listed[table], ids_M)
                    steps[table] = RowUpdate(ids=seen, grads_MD=grads_MD)
        self._release(looked_up.lookups)
        return steps


def _gradients_first(listed: UniqueIds, ids_M: Array) -> UniqueIds:
    """Put the ids that have a gradient in front, in the order of the gradients."""
    if len(ids_M) == len(listed.ids_N):
        return listed
    has_grad_N = np.isin(listed.ids_N, ids_M)
    return listed.at(np.concatenate([np.flatnonzero(has_grad_N), np.flatnonzero(~has_grad_N)]))
