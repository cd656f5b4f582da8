"""From the ids of a batch to vectors, and from their gradient back to the rows."""

# Shape suffixes: B rows of a side (samples), L longest list, M ids with a gradient, N ids, D width
# of a row, E pooled vectors next to each other.

import collections
import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetrec._native import BatchLookup
from fleetrec.core.batch import SAMPLE, Batch
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection, LookupGroup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.row_update import Array, UniqueIds, merge_grads, merge_ids

Floats = npt.NDArray[np.float32]
Gradients = tuple[BatchLookup, Floats | None, list[Floats | None]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """What ``Batch.embedded`` will hold, and by group the lookups that take gradients back."""

    vectors: Mapping[str, Tensor]
    lookups: Mapping[str, BatchLookup]
    held: tuple[tuple[Array, Array], ...] = ()  # arrays that the lookups point into


class Lookup:
    """Looks up the embeddings of a model in the tables that hold the rows.

    There is one native lookup for every group, that is for every side and width. A table that
    several sides look up is in several groups: its gradients are summed over them and applied once.
    """

    def __init__(
        self,
        collection: EmbeddingCollection,
        stores: Mapping[str, NativeStore],
        *,
        frozen: Collection[str] = (),
    ) -> None:
        self._collection = collection
        self._stores = stores
        self._frozen = frozenset(frozen)
        self._tables = {
            key: list(dict.fromkeys(feature.table for feature in group.features))
            for key, group in collection.groups.items()
        }
        counts = collections.Counter(table for its in self._tables.values() for table in its)
        self._shared = frozenset(table for table, count in counts.items() if count > 1)
        self._sides = dict.fromkeys(group.side for group in collection.groups.values())
        self._names: dict[str, tuple[str, ...]] = {}  # of the features, by side
        # They keep large buffers from batch to batch; one is taken while its batch is in flight.
        self._idle: dict[str, list[BatchLookup]] = {}

    def pull(self, batch: Batch, *, training: bool, labels_B: Tensor | None = None) -> LookedUp:
        """Look up all vectors; in training rows may be created, and ``push`` must follow.

        ``labels_B`` are the clicks of the samples, for tables that count them. Impressions on other
        sides count as impressions without a click.
        """
        lookups = self._take(batch)
        several = {k: x for k, x in lookups.items() if training and self._has_shared_table(k)}
        for key, lookup in lookups.items():
            if key in several:
                continue
            with self.data_errors(key):
                lookup.find(
                    *self._ids_of(key, batch),
                    training=training,
                    now=batch.event_time,
                    labels=self._labels_of(key, labels_B),
                )
        held = self._find_shared(several, batch, labels_B)
        vectors = self._vectors(lookups, training=training)
        if not training:
            self._release(lookups)
        return LookedUp(vectors=vectors, lookups=lookups, held=held)

    def push(self, looked_up: LookedUp, *, lr: float | Mapping[str, float]) -> None:
        """Sum the gradient of the vectors per row and apply it; ``lr`` may differ by group."""
        rates = lr if isinstance(lr, Mapping) else dict.fromkeys(looked_up.lookups, lr)
        several = {k: x for k, x in looked_up.lookups.items() if self._has_shared_table(k)}
        for key, (lookup, pooled, sequences) in self._gradients(looked_up).items():
            if key not in several:
                lookup.apply(pooled, sequences, lr=rates[key])
        table_rates = {table: rates[key] for key in several for table in self._tables[key]}
        for table, parts in self._sum_groups(looked_up, several).items():
            ids_M, grads_MD = merge_grads(parts)
            self._stores[table].table.push(ids_M, grads_MD, lr=table_rates[table])
        self._release(looked_up.lookups)

    def _has_shared_table(self, group: str) -> bool:
        return not self._shared.isdisjoint(self._tables[group])

    def _find_shared(
        self, lookups: Mapping[str, BatchLookup], batch: Batch, labels_B: Tensor | None
    ) -> tuple[tuple[Array, Array], ...]:
        """Find the rows of groups that share tables, so that their gradients can be summed later.

        Ids are counted once per table, as in a lookup of all sides together. Returns the rows,
        which must live as long as the lookups use them.
        """
        listed = {
            key: self._list_group(key, lookup, batch, labels_B) for key, lookup in lookups.items()
        }
        for table in dict.fromkeys(table for its in listed.values() for table in its):
            if table not in self._frozen:
                ids = merge_ids([its[table] for its in listed.values() if table in its])
                self._stores[table].table.see(
                    ids.ids_N, ids.shows_N, ids.clicks_N, now=batch.event_time
                )
        held: list[tuple[Array, Array]] = []
        for key, lookup in lookups.items():
            rows = [
                self._stores[table].table.read(ids.ids_N, as_new=False)
                for table, ids in listed[key].items()
            ]
            held += rows
            lookup.use(rows)
        return tuple(held)

    def _list_group(
        self, group: str, lookup: BatchLookup, batch: Batch, labels_B: Tensor | None
    ) -> dict[str, UniqueIds]:
        """List the different ids of a group by table."""
        with self.data_errors(group):
            lookup.list_ids(*self._ids_of(group, batch), labels=self._labels_of(group, labels_B))
        listed: dict[str, UniqueIds] = {}
        for number, table in enumerate(self._tables[group]):
            ids_N, shows_N, clicks_N = lookup.listed(number)
            listed[table] = UniqueIds(ids_N=ids_N, shows_N=shows_N, clicks_N=clicks_N)
        return listed

    def _sum_groups(
        self, looked_up: LookedUp, groups: Collection[str]
    ) -> dict[str, list[tuple[Array, Array]]]:
        """Sum gradients per id within every group, by table; frozen tables are left out."""
        summed: dict[str, list[tuple[Array, Array]]] = {}
        for key, (lookup, pooled, sequences) in self._gradients(looked_up).items():
            if key not in groups:
                continue
            sums = lookup.sum(pooled, sequences)
            for table, part in zip(self._tables[key], sums, strict=True):
                if table not in self._frozen:
                    summed.setdefault(table, []).append(part)
        return summed

    def _ids_of(self, group: str, batch: Batch) -> tuple[Any, Any, int, Any]:
        """Return ids, offsets, number of rows and weights of the side of a group, as arrays."""
        ids = batch.side(self._collection.groups[group].side).ids
        weights = None if ids.weights_N is None else ids.weights_N.numpy()
        return ids.values_N.numpy(), ids.offsets.numpy(), ids.num_samples, weights

    def _labels_of(self, group: str, labels_B: Tensor | None) -> Array | None:
        is_sample = self._collection.groups[group].side == SAMPLE
        return labels_B.numpy() if labels_B is not None and is_sample else None

    def _take(self, batch: Batch) -> dict[str, BatchLookup]:
        """Return a lookup for every group, which is this batch's until it is released."""
        self._check_names({side: batch.side(side).ids for side in self._sides})
        return {
            key: self._idle[key].pop() if self._idle[key] else self._new_lookup(group)
            for key, group in self._collection.groups.items()
        }

    def _release(self, lookups: Mapping[str, BatchLookup]) -> None:
        for group, lookup in lookups.items():
            self._idle[group].append(lookup)

    def _vectors(self, lookups: Mapping[str, BatchLookup], *, training: bool) -> dict[str, Tensor]:
        """Return what ``Batch.embedded`` will hold, from lookups that know their rows."""
        vectors: dict[str, Tensor] = {}
        for key, lookup in lookups.items():
            group = self._collection.groups[key]
            if group.pooled:
                vectors_BE = torch.empty(lookup.num_samples, group.width)
                lookup.pool(vectors_BE.numpy())
                vectors[key] = vectors_BE.requires_grad_(training)
            for number, feature in enumerate(group.sequences):
                lengths_B = lookup.lengths(number)
                x_BLD = torch.empty(lookup.num_samples, int(lengths_B.max(initial=1)), group.dim)
                lookup.pad(number, x_BLD.numpy())
                vectors[feature.sequence_input] = x_BLD.requires_grad_(training)
                vectors[feature.lengths_input] = torch.from_numpy(lengths_B)
        return vectors

    def _gradients(self, looked_up: LookedUp) -> dict[str, Gradients]:
        """Return every lookup with the gradients of its pooled vectors and of its sequences."""
        grads = {
            name: vector.grad.numpy()
            for name, vector in looked_up.vectors.items()
            if vector.grad is not None
        }
        found: dict[str, Gradients] = {}
        for key, lookup in looked_up.lookups.items():
            sequences = self._collection.groups[key].sequences
            found[key] = (lookup, grads.get(key), [grads.get(f.sequence_input) for f in sequences])
        return found

    @contextlib.contextmanager
    def data_errors(self, group: str) -> Iterator[None]:
        """Raise DataError, which names the slot, for an id that is out of range."""
        try:
            yield
        except IndexError as error:
            number, bad_id = error.args
            feature = self._collection.groups[group].features[number]
            raise DataError(self._out_of_range(feature, bad_id)) from None

    def _out_of_range(self, feature: EmbeddedFeature, bad_id: int) -> str:
        table = self._collection.tables[feature.table]
        return (
            f"slot {feature.feature!r}: id {bad_id} is outside [0, {table.num_rows}); raise "
            f"sparse_feature_number, let table {table.name!r} grow with distributed_embedding: 1, "
            "or let such ids share rows with hash_ids: 1"
        )

    def _check_names(self, sides: Mapping[str, KeyedJagged]) -> None:
        """Remember the order of the features; it is the same in every batch of a run."""
        names = {side: ids.names for side, ids in sides.items()}
        if names == self._names and self._idle:
            return
        for side, ids in sides.items():
            asked = [f.feature for f in self._collection.features if f.side == side]
            missing = [name for name in asked if name not in ids]
            if missing:
                where = "the data has" if side == SAMPLE else f"the side {side!r} has"
                raise DataError(f"the model looks up {missing}; {where} {list(ids)}")
        self._names = names
        self._idle = {group: [] for group in self._collection.groups}

    def _new_lookup(self, group: LookupGroup) -> BatchLookup:
        features = group.features
        tables = list(dict.fromkeys(feature.table for feature in features))
        return BatchLookup(
            [self._stores[name].table for name in tables],
            [
                (self._names[f.side].index(f.feature), tables.index(f.table), f.combiner)
                for f in features
            ],
            [tables.index(name) for name in tables if name in self._frozen],
            {i: f.max_length for i, f in enumerate(features) if f.max_length is not None},
        )
