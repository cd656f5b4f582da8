"""How many bytes a rank sends in one step.

Ranks hold equal shares and ask for equally many ids, so what one sends as the owner of rows equals
what it is sent as their user.
"""

import dataclasses
from collections.abc import Mapping

from fleetrec.planning.workload import FLOAT_BYTES, TableLoad, Workload

ID_BYTES = 8
IS_THERE_BYTES = 1  # beside a row: whether there is one
SIGHT_BYTES = 4  # beside a gradient: how often the id was seen
CLICK_BYTES = 4  # and with a click, if the table wants to know
COUNT_BYTES = 8  # how many ids follow, to each rank and for each sharded table
AGREEMENT_BYTES = 8  # a word to each rank: whether all go on


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
    """Return what a rank sends in one step."""
    others = num_ranks - 1
    return Traffic(
        tables={table.name: _table_bytes(table, num_ranks) for table in workload.tables},
        agreement=AGREEMENT_BYTES * others,
        all_reduce=2 * others / num_ranks * FLOAT_BYTES * workload.num_parameters,
    )


def _table_bytes(table: TableLoad, num_ranks: int) -> float:
    others = num_ranks - 1
    row_bytes = FLOAT_BYTES * table.dim
    sights = SIGHT_BYTES + (CLICK_BYTES if table.counts_clicks else 0)
    ids = table.different_ids_per_batch
    if table.is_replicated:
        return (ID_BYTES + row_bytes + sights) * ids * others
    remote = ids * others / num_ranks
    per_id = ID_BYTES + row_bytes + IS_THERE_BYTES + row_bytes + sights
    return per_id * remote + COUNT_BYTES * others
