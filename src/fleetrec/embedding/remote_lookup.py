"""Lookups whose rows are held by other processes."""

# Shape suffixes: N different ids of a batch, M of them with a gradient, D width of a row.

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from torch import Tensor

from fleetrec._native import BatchLookup
from fleetrec.core.batch import Batch
from fleetrec.embedding.lookup import LookedUp, Lookup, gradients_of, sides_of
from fleetrec.embedding.row_update import Array
from fleetrec.embedding.row_update import RowUpdate as RowUpdate
from fleetrec.embedding.row_update import UniqueIds as UniqueIds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of listed ids, and which of them exist."""

    rows_ND: Array
    is_there_N: Array


class Fetch(Protocol):
    """Fetches rows from the processes that hold them."""

    def __call__(self, listed: Mapping[str, UniqueIds], *, training: bool) -> Mapping[str, Rows]:
        """Return the rows of ids by table; outside of training, missing ones are zeros."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchIds:
    """The unique ids of a batch by table, and the lookups by group."""

    lookups: Mapping[str, BatchLookup]
    listed: Mapping[str, UniqueIds]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchRows(BatchIds):
    """The ids of a batch and their rows, before pooling."""

    rows: Mapping[str, Rows]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLookedUp(LookedUp):
    """Vectors of fetched rows, and the ids that a push sends with their gradients."""

    listed: Mapping[str, UniqueIds]
    rows: Mapping[str, Rows]


class RemoteLookup(Lookup):
    """Pools rows that are fetched for every batch, and sums their gradients for a push."""

    def fetch(
        self, batch: Batch, fetch: Fetch, *, training: bool, labels_B: Tensor | None = None
    ) -> RemoteLookedUp:
        """Look up all vectors; calls ``fetch`` once for all tables."""
        fetched = self.prepare(batch, fetch, training=training, labels_B=labels_B)
        return self.look_up(fetched, training=training)

    def prepare(
        self, batch: Batch, fetch: Fetch, *, training: bool, labels_B: Tensor | None = None
    ) -> BatchRows:
        """Fetch the rows of a batch, without effect on other batches in flight."""
        listing = self.list_batch(batch, labels_B=labels_B)
        rows = fetch(listing.listed, training=training)
        return BatchRows(lookups=listing.lookups, listed=listing.listed, rows=rows)

    def list_batch(self, batch: Batch, *, labels_B: Tensor | None = None) -> BatchIds:
        """List the unique ids of a batch, whose rows are fetched later."""
        sides = sides_of(batch)
        lookups = self._tables.take(sides)
        labels = None if labels_B is None else labels_B.numpy()
        listed = self._tables.list_ids(lookups, sides, labels_B=labels)
        return BatchIds(lookups=lookups, listed=listed)

    def look_up(self, fetched: BatchRows, *, training: bool) -> RemoteLookedUp:
        """Return the vectors of fetched rows."""
        rows = {name: (its.rows_ND, its.is_there_N) for name, its in fetched.rows.items()}
        held = self._tables.set_rows(fetched.lookups, fetched.listed, rows)
        vectors = self._vectors(fetched.lookups, training=training)
        if not training:
            self._tables.release(fetched.lookups)
        return RemoteLookedUp(
            vectors=vectors,
            lookups=fetched.lookups,
            held=held,
            listed=fetched.listed,
            rows=fetched.rows,
        )

    def list_ids(self, batch: Batch, *, labels_B: Tensor | None = None) -> dict[str, UniqueIds]:
        """Return the unique ids of a batch, by table; frozen tables are left out."""
        listing = self.list_batch(batch, labels_B=labels_B)
        self._tables.release(listing.lookups)
        return {name: its for name, its in listing.listed.items() if name not in self._frozen}

    @property
    def table_names(self) -> list[str]:
        """Return the names of all tables, in the order in which ids are listed."""
        return self._tables.table_names

    def sum(self, looked_up: RemoteLookedUp) -> dict[str, RowUpdate]:
        """Sum the gradient of the vectors per id, by table; frozen tables are left out."""
        summed = self._tables.sum(looked_up.lookups, gradients_of(looked_up))
        self._tables.release(looked_up.lookups)
        return {
            table: RowUpdate(
                ids=_gradients_first(looked_up.listed[table], ids_M), grads_MD=grads_MD
            )
            for table, (ids_M, grads_MD) in summed.items()
        }


def _gradients_first(listed: UniqueIds, ids_M: Array) -> UniqueIds:
    """Put the ids that have a gradient in front, in the order of the gradients."""
    if len(ids_M) == len(listed.ids_N):
        return listed
    has_grad_N = np.isin(listed.ids_N, ids_M)
    return listed.at(np.concatenate([np.flatnonzero(has_grad_N), np.flatnonzero(~has_grad_N)]))
