"""From the ids of a batch to vectors, and from their gradient back to the rows, in torch."""

import dataclasses
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from fleetrec._native import BatchLookup
from fleetrec.core.batch import Batch
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.row_update import Array
from fleetrec.embedding.table_lookup import RowsThere, Sides, TableLookup
from fleetrec.features.values import KeyedIds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """The content of ``Batch.embedded``, and by group the lookups that apply gradients."""

    vectors: Mapping[str, Tensor]
    lookups: Mapping[str, BatchLookup]
    held: tuple[RowsThere, ...] = ()  # arrays that the lookups point into


class Lookup:
    """Looks up the embeddings of a model in the tables that hold the rows."""

    def __init__(
        self,
        collection: EmbeddingCollection,
        stores: Mapping[str, NativeStore],
        *,
        frozen: Collection[str] = (),
    ) -> None:
        tables = {name: store.table for name, store in stores.items()}
        self._tables = TableLookup(collection.layout, tables, frozen=frozen)
        self._frozen = frozenset(frozen)

    def pull(self, batch: Batch, *, training: bool, labels_B: Tensor | None = None) -> LookedUp:
        """Look up all vectors; in training rows may be created, and ``push`` must follow.

        ``labels_B`` are the clicks of the samples, for tables that count them. Impressions on other
        sides count as impressions without a click.
        """
        sides = sides_of(batch)
        lookups = self._tables.take(sides)
        held = self._tables.find(
            lookups,
            sides,
            training=training,
            now=batch.event_time,
            labels_B=None if labels_B is None else labels_B.numpy(),
        )
        vectors = self._vectors(lookups, training=training)
        if not training:
            self._tables.release(lookups)
        return LookedUp(vectors=vectors, lookups=lookups, held=held)

    def push(self, looked_up: LookedUp, *, lr: float | Mapping[str, float]) -> None:
        """Sum the gradient of the vectors per row and apply it; ``lr`` may differ by group."""
        rates = lr if isinstance(lr, Mapping) else dict.fromkeys(looked_up.lookups, lr)
        self._tables.push(looked_up.lookups, gradients_of(looked_up), lr=rates)
        self._tables.release(looked_up.lookups)

    def _vectors(self, lookups: Mapping[str, BatchLookup], *, training: bool) -> dict[str, Tensor]:
        """Return the content of ``Batch.embedded`` from lookups whose rows are known."""
        arrays = self._tables.vectors(lookups, empty=_empty)
        vectors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        for vector in vectors.values():
            if vector.is_floating_point():  # lengths are not
                vector.requires_grad_(training)
        return vectors


def _empty(shape: tuple[int, ...]) -> Array:
    """Return memory of torch, which is aligned for its kernels."""
    array: Array = torch.empty(shape).numpy()
    return array


def gradients_of(looked_up: LookedUp) -> dict[str, Array]:
    """Return the gradients of the vectors that have one."""
    return {
        name: vector.grad.numpy()
        for name, vector in looked_up.vectors.items()
        if vector.grad is not None
    }


def sides_of(batch: Batch) -> Sides:
    """Return the ids of all sides as arrays, without a copy."""
    return {name: _to_arrays(side.ids) for name, side in batch.sides.items()}


def _to_arrays(ids: KeyedJagged) -> KeyedIds:
    return KeyedIds(
        names=ids.names,
        ids=ids.values_N.numpy(),
        offsets=ids.offsets.numpy(),
        num_rows=ids.num_samples,
        weights=None if ids.weights_N is None else ids.weights_N.numpy(),
    )
