"""Rows in the native table of this process."""

# Shape suffixes: N ids, D width of a row.

import dataclasses
import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from fleetrec._native import Table
from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.table import RowOptimizer, TableConfig

COLUMNS = ("ids", "rows", "state", "shows", "clicks", "last_seen")


class NativeStore:
    """Keeps the Store contract; ``table`` is what batched lookups work on."""

    def __init__(self, config: TableConfig, optimizer: RowOptimizer, *, seed: int) -> None:
        self._config = config
        self.table = Table(
            name=config.name,
            dim=config.dim,
            num_rows=config.num_rows,
            salt=salt_of(config.name, seed=seed),
            initial=(config.initializer.kind, config.initializer.center, config.initializer.scale),
            optimizer=optimizer.name,
            hyperparameters=dict(optimizer.hyperparameters),
            guards=dict(optimizer.guards),
            admission=dataclasses.astuple(config.admission),
        )

    def __len__(self) -> int:
        return len(self.table)

    def pull(self, ids_N: Tensor, *, create: bool) -> Tensor:
        """Return rows_ND; see ``Store.pull``."""
        return torch.from_numpy(self.table.pull(ids_N.numpy(), create=create))

    def push(self, ids_N: Tensor, grads_ND: Tensor, *, lr: float) -> None:
        """Apply one gradient per id; see ``Store.push``."""
        self.table.push(ids_N.numpy(), grads_ND.numpy(), lr=lr)

    def snapshot(self) -> dict[str, Tensor]:
        """Return all rows by column; see ``Store.snapshot``."""
        return {name: torch.from_numpy(column) for name, column in self.table.snapshot().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace all rows; see ``Store.restore``."""
        if tensors.keys() not in ({"ids", "rows"}, set(COLUMNS)):
            raise CheckpointError(
                f"table {self._config.name}: the snapshot holds {sorted(tensors)}, "
                f"expected {sorted(COLUMNS)}"
            )
        try:
            self.table.restore(**{name: column.numpy() for name, column in tensors.items()})
        except (ValueError, TypeError) as error:
            shapes = {name: tuple(column.shape) for name, column in tensors.items()}
            raise CheckpointError(
                f"table {self._config.name} (width {self._config.dim}): the snapshot does not "
                f"fit: {error}; it has {shapes}"
            ) from error


def salt_of(table: str, *, seed: int) -> int:
    """Return the number that tells the first rows of this table and seed from all others."""
    digest = hashlib.blake2b(f"{seed}/{table}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
