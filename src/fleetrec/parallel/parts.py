"""Tables of which every server writes a part."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetrec.embedding.record import TableIdentity, TableRecord, to_hex
from fleetrec.embedding.snapshot import fingerprint_of
from fleetrec.embedding.table import TableConfig
from fleetrec.server.spec import NUM_BUCKETS

SHARD_BYTES = 1 << 26  # of weights, roughly, in one file of one server

Stats = Mapping[str, int]


def num_shards_each(table: TableConfig, stats: Sequence[Stats]) -> int:
    """Return in how many files each server writes its part; ``stats`` are those of all servers."""
    most = max(one["rows"] for one in stats)
    wanted = 1 + most * 4 * table.dim // SHARD_BYTES
    return min(wanted, NUM_BUCKETS // len(stats))


def record_of_parts(
    identity: TableIdentity, written: Sequence[Mapping[str, Any]], stats: Sequence[Stats]
) -> TableRecord:
    """Return the record of a table from what all servers say of the parts that they wrote."""
    totals = sum_stats(stats)
    return TableRecord(
        identity=identity,
        kind="base",
        parent=None,
        version=written[0]["version"],
        fingerprint=to_hex(fingerprint_of([crc for one in written for crc in one["crcs"]])),
        rows=totals["rows"],
        candidates=totals["candidates"],
        created=totals["created"],
        evicted=totals["evicted"],
    )


def sum_stats(parts: Sequence[Stats]) -> dict[str, int]:
    """Return figures of a whole table from those of its parts."""
    return {key: sum(part[key] for part in parts) for key in parts[0]}
