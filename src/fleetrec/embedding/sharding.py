"""Which process holds which rows of a table, and how several of them write one snapshot.

The rows of a table fall into ``NUM_BUCKETS`` buckets by their ids. A rank or a server holds a
range of them, a ``TableShard``; a single process holds the only shard.
"""

# Shape suffixes: N ids.

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec._native import Table
from fleetrec.embedding.record import (
    COUNTS,
    ParentRecord,
    ShardRecord,
    TableIdentity,
    TableRecord,
    to_hex,
)
from fleetrec.embedding.table import TableConfig

Array = npt.NDArray[Any]
Stats = Mapping[str, int]

NUM_BUCKETS = 1024
SHARD_BYTES = 1 << 26  # of weights, roughly, in one file: a small table is one file per holder
_MASK = 2**64 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableShard:
    """The part of every table that holder ``index`` of ``count`` has; a rank or a server."""

    index: int
    count: int

    def part_of(self, size: int) -> tuple[int, int]:
        """Return the range [first, end) of ``size`` items that belongs to this holder."""
        return self.index * size // self.count, (self.index + 1) * size // self.count

    @property
    def buckets(self) -> tuple[int, int]:
        """The range [first, end) of buckets of every table."""
        return self.part_of(NUM_BUCKETS)

    def files(self, shards_each: int) -> tuple[int, int]:
        """The range [first, end) of files of a snapshot with ``shards_each`` files per holder."""
        return self.index * shards_each, (self.index + 1) * shards_each


WHOLE_TABLE = TableShard(index=0, count=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The ids of one table by holder: positions in the list, holder after holder."""

    order_N: Array
    ends: Array  # by holder, where its positions end

    def split(self, values_N: Array) -> list[Array]:
        """Return the values of each holder."""
        if len(self.ends) == 1:
            return [values_N]
        return np.split(values_N[self.order_N], self.ends[:-1])

    def join(self, parts: Sequence[Array]) -> Array:
        """Put values that came from all holders back into the order of the list."""
        if len(parts) == 1:
            return parts[0]
        joined = np.concatenate(parts)
        values = np.empty_like(joined)
        values[self.order_N] = joined
        return values


def route(table: Table, ids_N: Array, *, num_shards: int) -> Route:
    """Find the holder of every id; those of one holder keep their order."""
    if num_shards == 1:
        return Route(order_N=np.zeros(0, np.int64), ends=np.array([len(ids_N)]))
    shards = [TableShard(index=i, count=num_shards) for i in range(num_shards)]
    ends = np.array([shard.buckets[1] for shard in shards])
    holder_of = np.searchsorted(ends, np.arange(NUM_BUCKETS), side="right").astype(np.uint16)
    holders_N = holder_of[table.buckets_of(ids_N)]
    counts = np.bincount(holders_N, minlength=num_shards)
    return Route(order_N=np.argsort(holders_N, kind="stable"), ends=np.cumsum(counts))


def num_shards_each(table: TableConfig, stats: Sequence[Stats]) -> int:
    """Return how many files each holder writes; ``stats`` are those of all holders."""
    most = max(one["rows"] for one in stats)
    wanted = 1 + most * 4 * table.dim // SHARD_BYTES
    return min(wanted, NUM_BUCKETS // len(stats))


def merge_table_records(
    identity: TableIdentity, parts: Sequence[ShardRecord], *, parent: ParentRecord | None
) -> TableRecord:
    """Return the record of a table from those of all its shards, in the order of the holders."""
    kind = "base" if parent is None else "delta"
    first = parts[0]
    for part in parts:
        if (part.kind, part.version) != (kind, first.version):
            raise ValueError(
                f"expected all shards of a {kind} of version {first.version}, got a {part.kind} "
                f"of version {part.version}"
            )
    return TableRecord(
        identity=identity,
        kind=kind,
        parent=parent,
        version=first.version,
        fingerprint=to_hex(fingerprint_of(crc for part in parts for crc in part.crcs)),
        rows=sum(part.rows for part in parts),
        candidates=sum(part.candidates for part in parts),
        **{key: sum(getattr(part, key) for part in parts) for key in COUNTS},
    )


def sum_stats(parts: Sequence[Stats]) -> dict[str, int]:
    """Return the statistics of a whole table from those of its shards."""
    return {key: sum(part[key] for part in parts) for key in parts[0]}


def bucket_of(one: int, *, has_range: bool) -> int:
    """Return the bucket that an id falls into."""
    return (one if has_range else _mix(one)) % NUM_BUCKETS


def fingerprint_of(crcs: Iterable[int]) -> int:
    """Return the fingerprint of files from their CRCs, in the order of shards."""
    fingerprint = 0
    for crc in crcs:
        fingerprint = _mix((fingerprint + crc) & _MASK)
    return fingerprint


def _mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
    return x ^ x >> 31
