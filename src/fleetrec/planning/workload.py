"""The workload of a job: its tables, its network, and one batch of one rank."""

import dataclasses

ROW_BYTES = 48  # maximum besides weights and state; measured by make bench-large
FLOAT_BYTES = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableLoad:
    """A table, and the load of one batch of one rank.

    ``num_rows`` is the size after all data was read; for a growing table, an estimate.
    """

    name: str
    dim: int
    num_state: int  # floats of optimizer state per row
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
    """The workload of one rank, which processes ``batch_size`` samples per step."""

    batch_size: int
    tables: tuple[TableLoad, ...]
    num_parameters: int
    dense_bytes: int  # weights, gradients and optimizer state
    batch_bytes: int  # tensors saved for the backward pass
