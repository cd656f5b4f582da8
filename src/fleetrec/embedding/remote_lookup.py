"""Lookups whose rows are held by other processes."""

# Shape suffixes: N different ids of a batch, M of them with a gradient, D width of a row.

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from torch import Tensor

from fleetrec._native import BatchLookup
from fleetrec.core.batch import Batch
from fleetrec.embedding.lookup import LookedUp, Lookup
from fleetrec.embedding.row_update import Array, merge_grads, merge_ids
from fleetrec.embedding.row_update import RowUpdate as RowUpdate
from fleetrec.embedding.row_update import UniqueIds as UniqueIds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of listed ids, and which of them are there at all."""

    rows_ND: Array
    is_there_N: Array


class Fetch(Protocol):
    """Fetches rows from the processes that hold them."""

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
    """Vectors made of fetched rows, and the ids that a push will send with their gradients."""

    listed: Mapping[str, UniqueIds]
    rows: Mapping[str, Rows]


class RemoteLookup(Lookup):
    """Pools rows that are fetched for every batch, and sums gradients for sending them back."""

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
        lookups = self._take(batch)
        return BatchIds(lookups=lookups, listed=self._list(lookups, batch, labels_B))

    def look_up(self, fetched: BatchRows, *, training: bool) -> RemoteLookedUp:
        """Make vectors of rows that are there."""
        held: list[tuple[Array, Array]] = []
        for key, lookup in fetched.lookups.items():
            rows = [
                self._rows_of(lookup, number, table, fetched)
                for number, table in enumerate(self._tables[key])
            ]
            held += rows
            lookup.use(rows)
        vectors = self._vectors(fetched.lookups, training=training)
        if not training:
            self._release(fetched.lookups)
        return RemoteLookedUp(
            vectors=vectors,
            lookups=fetched.lookups,
            listed=fetched.listed,
            rows=fetched.rows,
            held=tuple(held),
        )

    def _rows_of(
        self, lookup: BatchLookup, number: int, table: str, fetched: BatchRows
    ) -> tuple[Array, Array]:
        """Return the rows of the ids that one lookup listed in a table, in its order."""
        rows = fetched.rows[table]
        if table not in self._shared:
            return rows.rows_ND, rows.is_there_N
        positions = np.searchsorted(fetched.listed[table].ids_N, lookup.listed(number)[0])
        return rows.rows_ND[positions], rows.is_there_N[positions]

    def list_ids(self, batch: Batch, *, labels_B: Tensor | None = None) -> dict[str, UniqueIds]:
        """Return the different ids of a batch, by table; frozen tables are left out."""
        listing = self.list_batch(batch, labels_B=labels_B)
        self._release(listing.lookups)
        return {name: its for name, its in listing.listed.items() if name not in self._frozen}

    @property
    def table_names(self) -> list[str]:
        """Return the names of all tables, in the order in which ids are listed."""
        return list(dict.fromkeys(table for its in self._tables.values() for table in its))

    def _list(
        self, lookups: Mapping[str, BatchLookup], batch: Batch, labels_B: Tensor | None
    ) -> dict[str, UniqueIds]:
        listed: dict[str, list[UniqueIds]] = {}
        for key, lookup in lookups.items():
            for table, ids in self._list_group(key, lookup, batch, labels_B).items():
                listed.setdefault(table, []).append(ids)
        return {table: merge_ids(parts) for table, parts in listed.items()}

    def sum(self, looked_up: RemoteLookedUp) -> dict[str, RowUpdate]:
        """Sum the gradient of the vectors per id, by table; frozen tables are left out."""
        summed = self._sum_groups(looked_up, looked_up.lookups)
        updates: dict[str, RowUpdate] = {}
        for table, parts in summed.items():
            ids_M, grads_MD = merge_grads(parts)
            ids = _gradients_first(looked_up.listed[table], ids_M)
            updates[table] = RowUpdate(ids=ids, grads_MD=grads_MD)
        self._release(looked_up.lookups)
        return updates


def _gradients_first(listed: UniqueIds, ids_M: Array) -> UniqueIds:
    """Put the ids that have a gradient in front, in the order of the gradients."""
    if len(ids_M) == len(listed.ids_N):
        return listed
    has_grad_N = np.isin(listed.ids_N, ids_M)
    return listed.at(np.concatenate([np.flatnonzero(has_grad_N), np.flatnonzero(~has_grad_N)]))
