"""Measures the speed of the work of one rank on this machine, on real batches.

A time is the shortest of several: other load of the machine only makes it longer.
"""

# Shape suffixes: N ids, D width of a row.

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.progress import Progress
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.models.base import Model
from fleetrec.parallel.held_state import HeldState
from fleetrec.parallel.rows import ClickLabels
from fleetrec.parallel.stepper import Stepper
from fleetrec.planning.sample import Clock, table_ids
from fleetrec.planning.workload import FLOAT_BYTES

ENOUGH_S = 0.5  # for one measurement


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds, and bytes of the dense network and of a batch."""

    compute_per_batch: float
    lookup_per_batch: float
    row: float
    dense_bytes: int
    batch_bytes: int


def measure(
    model: Model,
    stepper: Stepper,
    state: HeldState,
    batches: Sequence[Batch],
    *,
    clock: Clock,
) -> Measured:
    """Train on the batches twice; rows and buffers are allocated the first time."""
    train = partial(stepper.train, progress=Progress())
    for batch in batches:
        train(batch)
    lookup = _LookupAlone(model, state.stores)
    steps = _shortest([partial(train, batch) for batch in batches], clock)
    lookups = _shortest([partial(lookup, batch) for batch in batches], clock)
    return Measured(
        compute_per_batch=max(0.0, steps - lookups),
        lookup_per_batch=lookups,
        row=_row_s(model, state.stores, batches, clock),
        dense_bytes=_dense_bytes(model, state),
        batch_bytes=_kept_bytes(model, lookup, batches[0]),
    )


class _LookupAlone:
    """Looks up vectors and applies a zero gradient, without a network."""

    def __init__(self, model: Model, stores: Mapping[str, NativeStore]) -> None:
        collection = model.embedding_collection()
        self._click_labels = ClickLabels(model)
        self._lookup = Lookup(collection, stores)

    def __call__(self, batch: Batch) -> None:
        looked_up = self._lookup.pull(batch, training=True, labels_B=self._click_labels(batch))
        for vector in looked_up.vectors.values():
            if vector.requires_grad:
                vector.grad = torch.zeros_like(vector)
        self._lookup.push(looked_up, lr=0.0)

    def embed(self, batch: Batch) -> Batch:
        """Return the batch with embeddings, as in training."""
        looked_up = self._lookup.pull(batch, training=True, labels_B=self._click_labels(batch))
        return batch.with_embedded(looked_up.vectors)


def _shortest(works: Iterable[Callable[[], object]], clock: Clock) -> float:
    """Repeat the work until enough time has passed; return the shortest time."""
    works = list(works)
    times: list[float] = []
    first = clock()
    while not times or clock() - first < ENOUGH_S:
        for work in works:
            begin = clock()
            work()
            times.append(clock() - begin)
    return min(times)


def _row_s(
    model: Model, stores: Mapping[str, NativeStore], batches: Sequence[Batch], clock: Clock
) -> float:
    """Return the time to read and update one row, among those of many batches."""
    collection = model.embedding_collection()
    found = [table_ids(batch, collection) for batch in batches]
    ids = {
        name: torch.from_numpy(np.unique(np.concatenate([one[name] for one in found])))
        for name in stores
    }

    def move_all() -> None:
        for name, store in stores.items():
            rows_ND = store.pull(ids[name], create=True)
            store.push(ids[name], torch.zeros_like(rows_ND), lr=0.0)

    return _shortest([move_all], clock) / max(1, sum(map(len, ids.values())))


def _dense_bytes(model: Model, state: HeldState) -> int:
    """Return bytes of weights, gradients and optimizer state."""
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    cut = state.cut(parent=None)
    cut.finish(published=False)
    kept = cut.dense.get("optimizer", {}).values()
    return FLOAT_BYTES * 2 * num_parameters + sum(t.numel() * t.element_size() for t in kept)


def _kept_bytes(model: Model, lookup: _LookupAlone, batch: Batch) -> int:
    """Return bytes of tensors that a step saves for the backward pass."""
    embedded = lookup.embed(batch)
    sizes = {
        vector.untyped_storage().data_ptr(): 2 * vector.untyped_storage().nbytes()  # and gradient
        for vector in embedded.embedded.values()
    }
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: list[Tensor] = []  # kept alive, so that no address is reused

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        place = tensor.untyped_storage().data_ptr()
        if place not in own:
            sizes.setdefault(place, tensor.untyped_storage().nbytes())
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.loss(model(embedded), embedded)
    return sum(sizes.values())
