"""The bytes that a rank sends in one step.

Ranks own equal shares and request equally many ids, so a rank sends as many rows as it receives.
"""

import dataclasses
from collections.abc import Mapping

from fleetrec.planning.workload import FLOAT_BYTES, TableLoad, Workload

SEEN_BYTES = 8 + 4 + 4  # an id, its impressions, and its clicks
FLAG_BYTES = 1  # per row: whether it exists; per gradient: whether it is used
COUNT_BYTES = 8  # how many ids of a table follow, to each rank
AGREEMENT_BYTES = 2 * 8  # the number of samples, and the stop flag


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes that a rank sends in one step."""

    tables: Mapping[str, float]
    agreement: float
    all_reduce: float

    @property
    def exchange(self) -> float:
        """All but the gradient of the dense network."""
        return sum(self.tables.values()) + self.agreement

    @property
    def total(self) -> float:
        """All of it."""
        return self.exchange + self.all_reduce


def step_traffic(workload: Workload, num_ranks: int) -> Traffic:
    """Return the bytes that a rank sends in one step."""
    return Traffic(
        tables={table.name: table_bytes(table, num_ranks) for table in workload.tables},
        agreement=_ring_bytes(AGREEMENT_BYTES, num_ranks),
        all_reduce=_ring_bytes(FLOAT_BYTES * workload.num_parameters, num_ranks),
    )


def table_bytes(table: TableLoad, num_ranks: int) -> float:
    """Return the bytes that a rank sends in one step for one table."""
    others = num_ranks - 1
    ids = table.different_ids_per_batch
    row_bytes = FLOAT_BYTES * table.dim + FLAG_BYTES
    if table.is_replicated:  # everything is sent to every rank
        return (SEEN_BYTES + row_bytes) * ids * others + COUNT_BYTES * others
    remote = ids * others / num_ranks
    return (SEEN_BYTES + 2 * row_bytes) * remote + COUNT_BYTES * others


def _ring_bytes(num_bytes: int, num_ranks: int) -> float:
    """Return the bytes that a rank sends in a ring all-reduce."""
    return 2 * (num_ranks - 1) / num_ranks * num_bytes
