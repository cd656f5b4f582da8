"""Lookups and row updates on numpy arrays and native tables.

It needs no torch, so that serving uses the same lookups as training.
"""

# Shape suffixes: B rows of a side (samples), L longest list, M ids with a gradient, N ids, D width
# of a row, E pooled vectors next to each other.

import collections
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from fleetrec._native import BatchLookup, Table
from fleetrec.core.errors import DataError
from fleetrec.core.sides import NEGATIVES, SAMPLE
from fleetrec.embedding.layout import EmbeddedFeature, EmbeddingLayout, LookupGroup
from fleetrec.embedding.row_update import Array, UniqueIds, merge_grads, merge_ids
from fleetrec.features.values import KeyedIds

Sides: TypeAlias = Mapping[str, KeyedIds]
Lookups: TypeAlias = Mapping[str, BatchLookup]  # by group
RowsThere: TypeAlias = tuple[Array, Array]  # rows_ND, is_there_N


def empty_array(shape: tuple[int, ...]) -> Array:
    """Return float32 memory for vectors."""
    return np.empty(shape, np.float32)


class TableLookup:
    """Looks up the features of a layout in native tables.

    There is one native lookup for every group, that is for every side and width. A table that
    several sides look up is in several groups: its gradients are summed over them and applied once.
    """

    def __init__(
        self,
        layout: EmbeddingLayout,
        tables: Mapping[str, Table],
        *,
        frozen: Collection[str] = (),
    ) -> None:
        self._layout = layout
        self._tables = tables
        self._frozen = frozenset(frozen)
        self._tables_of = {
            key: list(dict.fromkeys(feature.table for feature in group.features))
            for key, group in layout.groups.items()
        }
        counts = collections.Counter(table for its in self._tables_of.values() for table in its)
        self._shared = frozenset(table for table, count in counts.items() if count > 1)
        self._names: dict[str, tuple[str, ...]] = {}  # of the features, by side
        # They keep large buffers from batch to batch; one is in use while its batch is in flight.
        self._idle: dict[str, list[BatchLookup]] = {}

    @property
    def table_names(self) -> list[str]:
        """Return the names of all tables, in the order in which ids are listed."""
        return list(dict.fromkeys(table for its in self._tables_of.values() for table in its))

    def look_up(self, sides: Sides) -> dict[str, Array]:
        """Return the vectors of a batch for inference; creates no rows and counts nothing."""
        lookups = self.take(sides)
        self.find(lookups, sides, training=False)
        vectors = self.vectors(lookups)
        self.release(lookups)
        return vectors

    def take(self, sides: Sides) -> dict[str, BatchLookup]:
        """Return a native lookup for every group, for one batch until it is released."""
        self._check_names(sides)
        return {
            key: self._idle[key].pop() if self._idle[key] else self._new_lookup(group)
            for key, group in self._layout.groups.items()
            if group.side in sides or group.side != NEGATIVES
        }

    def release(self, lookups: Lookups) -> None:
        """Make lookups available for another batch."""
        for group, lookup in lookups.items():
            self._idle[group].append(lookup)

    def find(
        self,
        lookups: Lookups,
        sides: Sides,
        *,
        training: bool,
        now: int = 0,
        labels_B: Array | None = None,
    ) -> tuple[RowsThere, ...]:
        """Find the rows of a batch; in training ids are counted and may get rows.

        Returns arrays that the lookups point into: keep them until the lookups are released.
        """
        several = {k: x for k, x in lookups.items() if training and self._has_shared_table(k)}
        for key, lookup in lookups.items():
            if key not in several:
                with self._data_errors(key):
                    lookup.find(
                        *self._ids_of(key, sides),
                        training=training,
                        now=now,
                        labels=self._labels_of(key, labels_B),
                    )
        return self._find_shared(several, sides, now=now, labels_B=labels_B)

    def _find_shared(
        self, lookups: Lookups, sides: Sides, *, now: int, labels_B: Array | None
    ) -> tuple[RowsThere, ...]:
        """Find the rows of groups that share tables, so that their gradients can be summed later.

        Ids are counted once per table, as in one lookup of all sides.
        """
        listed = self.list_ids(lookups, sides, labels_B=labels_B)
        rows: dict[str, RowsThere] = {}
        for name, ids in listed.items():
            table = self._tables[name]
            if name not in self._frozen:
                table.count_impressions(ids.ids_N, ids.shows_N, ids.clicks_N, now=now)
            rows[name] = table.read(ids.ids_N, as_new=False)
        return self.set_rows(lookups, listed, rows)

    def list_ids(
        self, lookups: Lookups, sides: Sides, *, labels_B: Array | None = None
    ) -> dict[str, UniqueIds]:
        """Return the unique ids of a batch by table; ``set_rows`` must follow."""
        listed: dict[str, list[UniqueIds]] = {}
        for key, lookup in lookups.items():
            with self._data_errors(key):
                lookup.list_ids(*self._ids_of(key, sides), labels=self._labels_of(key, labels_B))
            for number, table in enumerate(self._tables_of[key]):
                ids_N, shows_N, clicks_N = lookup.unique_ids(number)
                ids = UniqueIds(ids_N=ids_N, shows_N=shows_N, clicks_N=clicks_N)
                listed.setdefault(table, []).append(ids)
        return {table: merge_ids(parts) for table, parts in listed.items()}

    def set_rows(
        self, lookups: Lookups, listed: Mapping[str, UniqueIds], rows: Mapping[str, RowsThere]
    ) -> tuple[RowsThere, ...]:
        """Set the rows of the listed ids of lookups, by table.

        Returns arrays that the lookups point into: keep them until the lookups are released.
        """
        held: list[RowsThere] = []
        for key, lookup in lookups.items():
            its: list[RowsThere] = []
            for number, table in enumerate(self._tables_of[key]):
                rows_ND, is_there_N = rows[table]
                if table in self._shared:
                    own_ids_N = lookup.unique_ids(number)[0]
                    positions = np.searchsorted(listed[table].ids_N, own_ids_N)
                    rows_ND, is_there_N = rows_ND[positions], is_there_N[positions]
                its.append((rows_ND, is_there_N))
            lookup.set_rows(its)
            held += its
        return tuple(held)

    def vectors(
        self, lookups: Lookups, *, empty: Callable[[tuple[int, ...]], Array] = empty_array
    ) -> dict[str, Array]:
        """Return vectors by the names of ``Batch.embedded``, in memory from ``empty``."""
        vectors: dict[str, Array] = {}
        for key, lookup in lookups.items():
            group = self._layout.groups[key]
            if group.pooled:
                vectors[key] = empty((lookup.num_samples, group.width))
                lookup.pool(vectors[key])
            for number, feature in enumerate(group.sequences):
                lengths_B = lookup.lengths(number)
                longest = int(lengths_B.max(initial=1))
                x_BLD = empty((lookup.num_samples, longest, group.dim))
                lookup.pad(number, x_BLD)
                vectors[feature.sequence_input] = x_BLD
                vectors[feature.lengths_input] = lengths_B
        return vectors

    def push(
        self, lookups: Lookups, grads: Mapping[str, Array], *, lr: Mapping[str, float]
    ) -> None:
        """Sum the gradients of vectors per row and apply them; ``lr`` is by group."""
        several = {k: x for k, x in lookups.items() if self._has_shared_table(k)}
        for key, lookup in lookups.items():
            if key not in several:
                lookup.apply(*self._grads_of(key, grads), lr=lr[key])
        rates = {table: lr[key] for key in several for table in self._tables_of[key]}
        for table, (ids_M, grads_MD) in self.sum(several, grads).items():
            self._tables[table].push(ids_M, grads_MD, lr=rates[table])

    def sum(self, lookups: Lookups, grads: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Return ids and summed gradients by table, for lookups that listed ids.

        Frozen tables are left out.
        """
        summed: dict[str, list[tuple[Array, Array]]] = {}
        for key, lookup in lookups.items():
            sums = lookup.sum(*self._grads_of(key, grads))
            for table, part in zip(self._tables_of[key], sums, strict=True):
                if table not in self._frozen:
                    summed.setdefault(table, []).append(part)
        return {table: merge_grads(parts) for table, parts in summed.items()}

    def _has_shared_table(self, group: str) -> bool:
        return not self._shared.isdisjoint(self._tables_of[group])

    def _grads_of(
        self, group: str, grads: Mapping[str, Array]
    ) -> tuple[Array | None, list[Array | None]]:
        sequences = self._layout.groups[group].sequences
        return grads.get(group), [grads.get(f.sequence_input) for f in sequences]

    def _ids_of(self, group: str, sides: Sides) -> tuple[Array, Array, int, Array | None]:
        ids = sides[self._layout.groups[group].side]
        return ids.ids, ids.offsets, ids.num_rows, ids.weights

    def _labels_of(self, group: str, labels_B: Array | None) -> Array | None:
        return labels_B if self._layout.groups[group].side == SAMPLE else None

    @contextlib.contextmanager
    def _data_errors(self, group: str) -> Iterator[None]:
        """Raise DataError, which names the slot, for an id that is out of range."""
        try:
            yield
        except IndexError as error:
            number, bad_id = error.args
            feature = self._layout.groups[group].features[number]
            raise DataError(self._out_of_range(feature, bad_id)) from None

    def _out_of_range(self, feature: EmbeddedFeature, bad_id: int) -> str:
        table = self._layout.tables[feature.table]
        return (
            f"slot {feature.feature!r}: id {bad_id} is outside [0, {table.num_rows}); raise "
            f"sparse_feature_number, let table {table.name!r} grow with distributed_embedding: 1, "
            "or let such ids share rows with hash_ids: 1"
        )

    def _check_names(self, sides: Sides) -> None:
        """Remember the order of the features; it is the same in every batch of a run."""
        names = {side: ids.names for side, ids in sides.items()}
        if names == self._names and self._idle:
            return
        for side in dict.fromkeys(group.side for group in self._layout.groups.values()):
            if side not in sides and side == NEGATIVES:
                continue  # predictions need none
            if side not in sides:
                raise DataError(f"the batch has no side {side!r}; it has {', '.join(sides)}")
            found = sides[side].names
            asked = [f.feature for f in self._layout.features if f.side == side]
            missing = [name for name in asked if name not in found]
            if missing:
                where = "the data has" if side == SAMPLE else f"the side {side!r} has"
                raise DataError(f"the model looks up {missing}; {where} {list(found)}")
        self._names = names
        self._idle = {group: [] for group in self._layout.groups}

    def _new_lookup(self, group: LookupGroup) -> BatchLookup:
        features = group.features
        tables = list(dict.fromkeys(feature.table for feature in features))
        names = self._names[group.side]
        return BatchLookup(
            [self._tables[name] for name in tables],
            [(names.index(f.feature), tables.index(f.table), f.combiner) for f in features],
            [tables.index(name) for name in tables if name in self._frozen],
            {i: f.max_length for i, f in enumerate(features) if f.max_length is not None},
        )
