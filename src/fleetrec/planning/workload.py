"""What a job asks of machines: its tables, its network, and one batch of one rank."""

import dataclasses

ROW_BYTES = 48  # of a row beside weights and state, at most; make bench-large measures it
FLOAT_BYTES = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableLoad:
    """A table, and what one batch of one rank asks of it.

    ``num_rows`` is what it has when all data has been seen; of a table that grows, an estimate.
    """

    name: str
    dim: int
    num_state: int  # numbers that the optimizer keeps for a row
    num_rows: int
    is_estimated: bool
    is_replicated: bool
    ids_per_batch: float
    different_ids_per_batch: float

    @property
    def num_bytes(self) -> int:
        """Memory of all rows together."""
        return self.num_rows * (ROW_BYTES + FLOAT_BYTES * (self.dim + self.num_state))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job as one rank sees it; ``batch_size`` samples of every step are its own."""

    batch_size: int
    tables: tuple[TableLoad, ...]
    num_parameters: int
    dense_bytes: int  # weights, gradients and optimizer state
    batch_bytes: int  # what a step keeps for its way back
