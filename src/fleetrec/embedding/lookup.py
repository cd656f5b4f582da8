"""From the ids of a batch to pooled vectors, and from their gradient back to the rows."""

# Shape suffixes: B samples, E all vectors of a group side by side.

import dataclasses
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from fleetrec._native import BatchLookup
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.embedding.native_store import NativeStore


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """The vectors of one batch by group, and the native lookups that take their gradient back."""

    vectors: Mapping[str, Tensor]
    lookups: Mapping[str, BatchLookup]


class Lookup:
    """Binds the embeddings of a model to the tables that hold the rows."""

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
        self._names: tuple[str, ...] = ()
        # They keep large buffers from batch to batch; one is taken while its batch is in flight.
        self._idle: dict[str, list[BatchLookup]] = {}

    def pull(self, batch: Batch, *, training: bool, labels_B: Tensor | None = None) -> LookedUp:
        """Look up and pool; in training new rows are created and a gradient is to come.

        ``labels_B`` tell clicks from shows, where a table wants to know.
        """
        self._see_names(batch.ids)
        vectors: dict[str, Tensor] = {}
        lookups: dict[str, BatchLookup] = {}
        for group, features in self._collection.groups.items():
            lookup = self._idle[group].pop() if self._idle[group] else self._new_lookup(group)
            self._find(lookup, batch, training=training, labels_B=labels_B)
            width = len(features) * self._collection.group_dim(group)
            vectors_BE = torch.empty(batch.num_samples, width)
            lookup.pool(vectors_BE.numpy())
            vectors[group] = vectors_BE.requires_grad_(training)
            lookups[group] = lookup
        looked_up = LookedUp(vectors=vectors, lookups=lookups)
        if not training:
            self._release(looked_up)
        return looked_up

    def push(self, looked_up: LookedUp, *, lr: float) -> None:
        """Sum the gradient of the vectors per row and apply it."""
        for group, lookup in looked_up.lookups.items():
            grad_BE = looked_up.vectors[group].grad
            if grad_BE is not None:
                lookup.apply(grad_BE.contiguous().numpy(), lr=lr)
        self._release(looked_up)

    def _release(self, looked_up: LookedUp) -> None:
        for group, lookup in looked_up.lookups.items():
            self._idle[group].append(lookup)

    def _find(
        self, lookup: BatchLookup, batch: Batch, *, training: bool, labels_B: Tensor | None
    ) -> None:
        ids = batch.ids
        try:
            lookup.find(
                ids.values_N.numpy(),
                ids.offsets.numpy(),
                ids.num_samples,
                training=training,
                now=batch.event_time,
                labels=None if labels_B is None else labels_B.numpy(),
            )
        except IndexError as error:
            column, bad_id = error.args
            raise DataError(self._out_of_range(ids.names[column], bad_id)) from None

    def _out_of_range(self, name: str, bad_id: int) -> str:
        tables = {f.feature: self._collection.tables[f.table] for f in self._collection.features}
        table = tables[name]
        return (
            f"slot {name!r}: id {bad_id} is outside [0, {table.num_rows}); raise "
            f"sparse_feature_number, or let table {table.name!r} grow with "
            "distributed_embedding: 1"
        )

    def _see_names(self, ids: KeyedJagged) -> None:
        """Learn in which columns the features come; they are the same in every batch of a run."""
        if ids.names == self._names and self._idle:
            return
        missing = [f.feature for f in self._collection.features if f.feature not in ids]
        if missing:
            raise DataError(f"the model looks up {missing}; the data has {list(ids)}")
        self._names = ids.names
        self._idle = {group: [] for group in self._collection.groups}

    def _new_lookup(self, group: str) -> BatchLookup:
        features = self._collection.groups[group]
        tables = list(dict.fromkeys(feature.table for feature in features))
        return BatchLookup(
            [self._stores[name].table for name in tables],
            [(self._names.index(f.feature), tables.index(f.table), f.combiner) for f in features],
            [tables.index(name) for name in tables if name in self._frozen],
        )
