"""From the ids of a batch to vectors, and from their gradient back to the rows."""

# Shape suffixes: B samples, L longest list, D width of a row, E pooled vectors side by side.

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetrec._native import BatchLookup
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection, LookupGroup
from fleetrec.embedding.native_store import NativeStore

Floats = npt.NDArray[np.float32]
Gradients = tuple[BatchLookup, Floats | None, list[Floats | None]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """What ``Batch.embedded`` will hold, and by group the lookups that take gradients back."""

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
        """Look up all vectors; in training new rows are created and a gradient is to come.

        ``labels_B`` tell clicks from shows, where a table wants to know.
        """
        lookups = self._take(batch.ids)
        for key, lookup in lookups.items():
            ids, offsets, num_samples, weights = arrays_of(batch.ids)
            with self.data_errors(key):
                lookup.find(
                    ids,
                    offsets,
                    num_samples,
                    weights,
                    training=training,
                    now=batch.event_time,
                    labels=None if labels_B is None else labels_B.numpy(),
                )
        looked_up = LookedUp(vectors=self._vectors(lookups, training=training), lookups=lookups)
        if not training:
            self._release(lookups)
        return looked_up

    def push(self, looked_up: LookedUp, *, lr: float | Mapping[str, float]) -> None:
        """Sum the gradient of the vectors per row and apply it; ``lr`` may differ by group."""
        rates = lr if isinstance(lr, Mapping) else dict.fromkeys(looked_up.lookups, lr)
        for key, (lookup, pooled, sequences) in self._gradients(looked_up).items():
            lookup.apply(pooled, sequences, lr=rates[key])
        self._release(looked_up.lookups)

    def _take(self, ids: KeyedJagged) -> dict[str, BatchLookup]:
        """Return a lookup for every group, which is this batch's until it is released."""
        self._see_names(ids)
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
        """Say what the native lookup of a group says of an id, as a problem of the data."""
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

    def _see_names(self, ids: KeyedJagged) -> None:
        """Learn in which columns the features come; they are the same in every batch of a run."""
        if ids.names == self._names and self._idle:
            return
        missing = [f.feature for f in self._collection.features if f.feature not in ids]
        if missing:
            raise DataError(f"the model looks up {missing}; the data has {list(ids)}")
        self._names = ids.names
        self._idle = {group: [] for group in self._collection.groups}

    def _new_lookup(self, group: LookupGroup) -> BatchLookup:
        features = group.features
        tables = list(dict.fromkeys(feature.table for feature in features))
        return BatchLookup(
            [self._stores[name].table for name in tables],
            [(self._names.index(f.feature), tables.index(f.table), f.combiner) for f in features],
            [tables.index(name) for name in tables if name in self._frozen],
            {i: f.max_length for i, f in enumerate(features) if f.max_length is not None},
        )


def arrays_of(ids: KeyedJagged) -> tuple[Any, Any, int, Any]:
    """Return ids, offsets, number of samples and weights, if there are any, as arrays."""
    weights = None if ids.weights_N is None else ids.weights_N.numpy()
    return ids.values_N.numpy(), ids.offsets.numpy(), ids.num_samples, weights
