"""The push message: gradients and counts of one step, checked before use."""

# Shape suffixes: N ids, M of them with a gradient (the first ones), D width of a row,
# P dense weights.

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from fleetrec.embedding.native_store import NativeStore
from fleetrec.server.wire import Array, Kind, Message, WireError

MAX_SHOWS = 1 << 20  # of one id in one batch
ARRAYS_BEFORE_TABLES = 3
ARRAYS_PER_TABLE = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowPush:
    """Gradients and impression counts of the rows of one table."""

    ids_N: Array
    shows_N: Array
    clicks_N: Array
    grads_MD: Array

    def to_arrays(self) -> list[Array]:
        """Return the arrays in wire order."""
        return [self.ids_N, self.shows_N, self.clicks_N, self.grads_MD]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One step of one worker; ``progress`` is opaque and stored with the step."""

    progress: bytes
    num_samples: int
    event_time: int
    grads_P: Array
    tables: Sequence[RowPush]

    def to_message(self, *, worker: int, incarnation: int, sequence: int) -> Message:
        """Return the PUSH message."""
        counts = np.array([self.num_samples, self.event_time], np.uint64)
        progress = np.frombuffer(self.progress, np.uint8)
        tables = [array for table in self.tables for array in table.to_arrays()]
        return Message(
            kind=Kind.PUSH,
            worker=worker,
            incarnation=incarnation,
            sequence=sequence,
            arrays=[progress, counts, self.grads_P, *tables],
        )


def read_push(message: Message, stores: Mapping[str, NativeStore], *, num_dense: int) -> Push:
    """Decode a push; raises WireError if anything does not fit the tables."""
    expected = ARRAYS_BEFORE_TABLES + ARRAYS_PER_TABLE * len(stores)
    if len(message.arrays) != expected:
        raise WireError(f"expected a push of {expected} arrays, got {len(message.arrays)}")
    counts = message.array(1, np.uint64)
    grads_P = message.array(2, np.float32)
    if len(counts) != 2 or counts[0] == 0 or counts[1] >= 1 << 32:
        raise WireError("expected the number of samples and an event time of 32 bits")
    if len(grads_P) != num_dense:
        raise WireError(f"expected {num_dense} dense gradients, got {len(grads_P)}")
    tables = [
        _read_rows(message, ARRAYS_BEFORE_TABLES + ARRAYS_PER_TABLE * index, store)
        for index, store in enumerate(stores.values())
    ]
    return Push(
        progress=message.array(0, np.uint8).tobytes(),
        num_samples=int(counts[0]),
        event_time=int(counts[1]),
        grads_P=grads_P,
        tables=tables,
    )


def _read_rows(message: Message, first: int, store: NativeStore) -> RowPush:
    rows = RowPush(
        ids_N=message.array(first, np.int64),
        shows_N=message.array(first + 1, np.uint32),
        clicks_N=message.array(first + 2, np.uint32),
        grads_MD=message.array(first + 3, np.float32, columns=store.dim),
    )
    num_ids = len(rows.ids_N)
    if len(rows.shows_N) != num_ids or len(rows.clicks_N) != num_ids:
        raise WireError("expected shows and clicks of every id")
    if len(rows.grads_MD) > num_ids:
        raise WireError(f"expected at most {num_ids} gradients, got {len(rows.grads_MD)}")
    if (rows.shows_N > MAX_SHOWS).any() or (rows.clicks_N > rows.shows_N).any():
        raise WireError(f"expected clicks <= shows <= {MAX_SHOWS} of every id")
    check_ids(store, rows.ids_N)
    return rows


def check_ids(store: NativeStore, ids_N: Array) -> None:
    """Raise WireError for an id that belongs to another server or is out of range."""
    try:
        store.table.check_held(ids_N)
    except ValueError as error:
        raise WireError(str(error)) from error
