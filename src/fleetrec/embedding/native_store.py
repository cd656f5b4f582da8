"""Rows in the native table of this process."""

# Shape suffixes: N ids, D width of a row.

import dataclasses
import hashlib
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from fleetrec._native import Table
from fleetrec.core.errors import CheckpointError
from fleetrec.core.event_time import SECONDS_PER_DAY
from fleetrec.embedding.store import Store
from fleetrec.embedding.table import RowOptimizer, TableConfig

CANDIDATES = ("ids", "last_seen", "counts")
CANDIDATE_COLUMNS = tuple(f"candidate_{name}" for name in CANDIDATES)
COLUMNS = ("ids", "rows", "state", "shows", "clicks", "last_seen")


class NativeStore(Store):
    """Keeps the Store contract; ``table`` is what batched lookups work on."""

    def __init__(self, config: TableConfig, optimizer: RowOptimizer, *, seed: int) -> None:
        self._config = config
        self.table = Table(
            name=config.name,
            dim=config.dim,
            num_rows=config.num_rows,
            hash_ids=config.out_of_range == "hash",
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
        if tensors.keys() not in ({"ids", "rows"}, {*COLUMNS, *CANDIDATE_COLUMNS}):
            raise CheckpointError(
                f"table {self._config.name}: the snapshot holds {sorted(tensors)}, "
                f"expected {sorted((*COLUMNS, *CANDIDATE_COLUMNS))}"
            )
        arrays = {name: column.numpy() for name, column in tensors.items()}
        candidates = {n: arrays.pop(f"candidate_{n}") for n in CANDIDATES if len(tensors) > 2}
        try:
            self.table.restore(**arrays)
            if candidates:
                self.table.restore_candidates(**candidates)
        except (ValueError, TypeError) as error:
            shapes = {name: tuple(column.shape) for name, column in tensors.items()}
            raise CheckpointError(
                f"table {self._config.name} (width {self._config.dim}): the snapshot does not "
                f"fit: {error}; it has {shapes}"
            ) from error

    def evict(self, *, now: int) -> int:
        """Give up rows by the rules of the table; returns how many."""
        rule = self._config.eviction
        num_removed = 0
        if rule.max_unseen_days is not None:
            before = max(0, now - rule.max_unseen_days * SECONDS_PER_DAY)
            num_removed += len(self.table.evict_unseen(before=before))
        if rule.min_score is not None or rule.decay != 1.0:
            removed = self.table.evict_low_scores(
                decay=rule.decay,
                threshold=-math.inf if rule.min_score is None else rule.min_score,
                show_weight=rule.show_weight,
                click_weight=rule.click_weight,
            )
            num_removed += len(removed)
        if rule.max_rows is not None:
            num_removed += len(self.table.evict_beyond(capacity=rule.max_rows))
        return num_removed


def salt_of(table: str, *, seed: int) -> int:
    """Return the number that tells the first rows of this table and seed from all others."""
    digest = hashlib.blake2b(f"{seed}/{table}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
