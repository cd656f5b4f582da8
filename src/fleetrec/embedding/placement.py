"""Which ranks hold the rows of a table in training without servers."""

from typing import Literal

from fleetrec.embedding.table import TableConfig

Placement = Literal["auto", "replicated", "sharded"]

MAX_REPLICATED_BYTES = 64 << 20  # of weights; larger tables are sharded by ``auto``


def is_replicated(table: TableConfig, placement: Placement) -> bool:
    """Return whether every rank holds all rows; else each holds those of its own buckets."""
    if placement != "auto":
        return placement == "replicated"
    if table.num_rows is None:
        return False
    return 4 * table.dim * table.num_rows <= MAX_REPLICATED_BYTES
