"""The interface of stores of embedding rows."""

# Shape suffixes: N unique ids, D width of a row.

from typing import Protocol

from torch import Tensor


class Store(Protocol):
    """Rows of one table, addressed by 64-bit id. The optimizer state is stored with the row."""

    def __len__(self) -> int:
        """Return the number of rows that exist."""
        ...

    def pull(self, ids_N: Tensor, *, create: bool) -> Tensor:
        """Return rows_ND.

        Rows that are missing are created, or without ``create`` (evaluation) are zeros and
        nothing is stored.
        """
        ...

    def push(self, ids_N: Tensor, grads_ND: Tensor, *, lr: float) -> None:
        """Apply gradients, summed per id; gradients of ids without a row are dropped."""
        ...

    def snapshot(self) -> dict[str, Tensor]:
        """Return all rows and their state as tensors, ordered by unsigned id."""
        ...
