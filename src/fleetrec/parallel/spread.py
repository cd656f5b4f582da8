"""Tables whose rows several processes hold."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetrec.embedding.record import TableIdentity, TableRecord, to_hex
from fleetrec.embedding.snapshot import fingerprint_of
from fleetrec.embedding.table import TableConfig

SHARD_BYTES = 1 << 26  # of weights, roughly, in one file of one process
MAX_SHARDS = 1024


def shards_each(table: TableConfig, stats: Sequence[Mapping[str, int]]) -> int:
    """Return how many files each process writes of a table, from what each says of its rows."""
    most = max(one["rows"] for one in stats)
    return min(1 + most * 4 * table.dim // SHARD_BYTES, MAX_SHARDS // len(stats))


def record_of(
    identity: TableIdentity,
    written: Sequence[Mapping[str, Any]],
    stats: Sequence[Mapping[str, int]],
) -> TableRecord:
    """Return what is written down about a table whose files several processes have written."""
    totals = sums(stats)
    return TableRecord(
        identity=identity,
        kind="base",
        parent=None,
        version=written[0]["version"],
        fingerprint=to_hex(fingerprint_of(crc for one in written for crc in one["crcs"])),
        rows=totals["rows"],
        candidates=totals["candidates"],
        created=totals["created"],
        evicted=totals["evicted"],
    )


def sums(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return figures of several processes added up."""
    return {key: sum(part[key] for part in parts) for key in parts[0]}
