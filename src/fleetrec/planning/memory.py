"""The memory of a rank, and advice if it is too much."""

import dataclasses
import math
from collections.abc import Mapping

from fleetrec.embedding.sharding import NUM_BUCKETS
from fleetrec.planning.units import bytes_text
from fleetrec.planning.workload import TableLoad, Workload

PROGRAM_BYTES = 512 << 20  # Python, torch and what they load
DENSE, BATCH, PROGRAM = "dense", "batch", "program"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of the rank that uses most memory: by table, dense network, batch and program."""

    tables: Mapping[str, int]
    others: Mapping[str, int]

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.tables.values()) + sum(self.others.values())


def rank_memory(workload: Workload, num_ranks: int) -> Memory:
    """Return the memory of the rank that holds most."""
    return Memory(
        tables={table.name: _share_bytes(table, num_ranks) for table in workload.tables},
        others={
            DENSE: workload.dense_bytes,
            BATCH: workload.batch_bytes,
            PROGRAM: PROGRAM_BYTES,
        },
    )


def advice(workload: Workload, *, num_ranks: int, limit_bytes: int) -> str | None:
    """Return advice about memory in one sentence; None if it suffices."""
    if rank_memory(workload, num_ranks).total <= limit_bytes:
        return None
    sharded = dataclasses.replace(
        workload,
        tables=tuple(dataclasses.replace(t, is_replicated=False) for t in workload.tables),
    )
    found = []
    of_sharded = rank_memory(sharded, num_ranks).total
    if of_sharded <= limit_bytes:
        found.append(f"placement sharded needs {bytes_text(of_sharded)}")
    enough = _ranks_that_fit(workload, limit_bytes)
    if enough is not None:
        found.append(f"{enough} ranks fit")
    if found:
        return "; ".join(found)
    enough = _ranks_that_fit(sharded, limit_bytes)
    if enough is not None:
        return f"placement sharded on {enough} ranks fits"
    if not workload.tables:
        return "a smaller batch_size or network is needed"
    largest = max(workload.tables, key=lambda table: table.num_bytes)
    return (
        f"no number of ranks fits; make table {largest.name!r} smaller (fewer rows, a smaller "
        "width, an optimizer that keeps less)"
    )


def _share_bytes(table: TableLoad, num_ranks: int) -> int:
    if table.is_replicated:
        return table.num_bytes
    return math.ceil(table.num_bytes * math.ceil(NUM_BUCKETS / num_ranks) / NUM_BUCKETS)


def _ranks_that_fit(workload: Workload, limit_bytes: int) -> int | None:
    counts = range(1, NUM_BUCKETS + 1)
    return next((n for n in counts if rank_memory(workload, n).total <= limit_bytes), None)
