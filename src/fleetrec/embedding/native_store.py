"""Rows in the native table of this process."""

# Shape suffixes: N ids, D width of a row.

import dataclasses
import hashlib
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fleetrec._native import Cut, Table, optimizer_schema, read_snapshot
from fleetrec.core.errors import CheckpointError, MismatchError
from fleetrec.core.event_time import SECONDS_PER_DAY
from fleetrec.embedding.record import (
    Chain,
    ParentRecord,
    StoredTable,
    TableIdentity,
    TableRecord,
    WrittenTable,
    to_hex,
)
from fleetrec.embedding.snapshot import Columns, live_rows, open_shards, translated
from fleetrec.embedding.store import Store
from fleetrec.embedding.table import RowOptimizer, TableConfig

SHARD_BYTES = 1 << 26  # of weights, roughly: a small table is one file
MAX_SHARDS = 1024
ALL_BUCKETS = (0, 1024)


class NativeStore(Store):
    """Keeps the Store contract; ``table`` is what batched lookups work on."""

    def __init__(
        self,
        config: TableConfig,
        optimizer: RowOptimizer,
        *,
        seed: int,
        buckets: tuple[int, int] = ALL_BUCKETS,
    ) -> None:
        self._config = config
        self._buckets = buckets
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
            buckets=buckets,
        )
        self._identity = identity_of(config, optimizer, seed=seed)
        self._fingerprint: str | None = None  # of the snapshot that was committed or read last

    def __len__(self) -> int:
        return len(self.table)

    @property
    def dim(self) -> int:
        """Return the width of a row."""
        return self._config.dim

    def pull(self, ids_N: Tensor, *, create: bool) -> Tensor:
        """Return rows_ND; see ``Store.pull``."""
        return torch.from_numpy(self.table.pull(ids_N.numpy(), create=create))

    def push(self, ids_N: Tensor, grads_ND: Tensor, *, lr: float) -> None:
        """Apply one gradient per id; see ``Store.push``."""
        self.table.push(ids_N.numpy(), grads_ND.numpy(), lr=lr)

    def snapshot(self) -> dict[str, Tensor]:
        """Return all rows by column; see ``Store.snapshot``."""
        return {name: torch.from_numpy(column) for name, column in self.table.snapshot().items()}

    def write(self, directory: Path, *, parent: str | None) -> WrittenTable:
        """Write the table into a new folder, straight from where its rows are.

        Args:
            directory: Where the files go.
            parent: Where the snapshot committed or read last is; what changed since then is
                written. None: everything is.
        """
        directory.mkdir(parents=True)
        cut = Cut(self.table)
        figures = cut.write(
            directory, kind="base" if parent is None else "delta", num_shards=self._num_shards()
        )
        fingerprint, stats = to_hex(figures["fingerprint"]), self.table.stats()
        record = TableRecord(
            identity=self._identity,
            kind="base" if parent is None else "delta",
            parent=self._parent_record(parent),
            version=figures["version"],
            fingerprint=fingerprint,
            rows=stats["rows"],
            candidates=stats["candidates"],
            created=stats["created"],
            evicted=stats["evicted"],
        )

        def commit() -> None:
            cut.commit()
            self._fingerprint = fingerprint

        return WrittenTable(record=record, commit=commit)

    def load(self, stored: StoredTable) -> None:
        """Take up a table exactly; it is empty after an error."""
        record, where = stored.record, stored.chain.name
        self.clear()
        differences = record.identity.differences(self._identity)
        if differences:
            raise MismatchError(
                f"{where}: table {stored.name} cannot go on from here: {'; '.join(differences)}"
            )
        with stored.chain.local() as chain, translated():
            figures = read_snapshot(self.table, chain.directories)
        if to_hex(figures["fingerprint"]) != record.fingerprint:
            self.clear()
            raise CheckpointError(f"{where}: damaged: these are not the files of the manifest")
        self.table.restore_counts(created=record.created, evicted=record.evicted)
        self._fingerprint = record.fingerprint

    def load_rows(self, stored: StoredTable) -> None:
        """Take up weights, shows and clicks of all rows; optimizer state and time begin anew."""
        self.clear()
        with stored.chain.local() as chain:
            self._load_rows(stored.name, chain)

    def _load_rows(self, name: str, chain: Chain) -> None:
        width = open_shards(chain.directories[-1])[0].header["dim"]
        if width != self._config.dim:
            raise CheckpointError(
                f"{chain.name}: table {name} holds rows of width {width}, the model has "
                f"{self._config.dim}"
            )
        try:
            for block in map(self._held, live_rows(chain)):
                self.table.add_rows(
                    ids=block["ids"].view(np.int64),
                    rows=block["rows"],
                    shows=block["shows"],
                    clicks=block["clicks"],
                )
        except CheckpointError:
            self.clear()
            raise
        except ValueError as error:
            self.clear()
            raise CheckpointError(f"{chain.name}: table {name}: {error}") from error

    def _held(self, block: Columns) -> Columns:
        """Return the rows that belong here, where others hold the rest."""
        if self._buckets == ALL_BUCKETS:
            return block
        buckets_N = self.table.buckets_of(block["ids"].view(np.int64))
        is_held_N = (buckets_N >= self._buckets[0]) & (buckets_N < self._buckets[1])
        return {name: column[is_held_N] for name, column in block.items()}

    def clear(self) -> None:
        """Forget all rows."""
        self.table.clear()
        self._fingerprint = None

    def _num_shards(self) -> int:
        num_bytes = len(self.table) * 4 * self._config.dim
        return min(MAX_SHARDS, 1 + num_bytes // SHARD_BYTES)

    def _parent_record(self, parent: str | None) -> ParentRecord | None:
        if parent is None:
            return None
        assert self._fingerprint is not None
        return ParentRecord(path=parent, fingerprint=self._fingerprint)

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
        if rule.max_rows is not None:  # of which a part of the table has its part
            first, last = self._buckets
            capacity = -(-rule.max_rows * (last - first) // ALL_BUCKETS[1])
            num_removed += len(self.table.evict_beyond(capacity=capacity))
        return num_removed


def identity_of(config: TableConfig, optimizer: RowOptimizer, *, seed: int) -> TableIdentity:
    """Return everything that decides how the rows of a table come and move."""
    return TableIdentity(
        dim=config.dim,
        num_rows=config.num_rows,
        out_of_range=config.out_of_range,
        salt=to_hex(salt_of(config.name, seed=seed)),
        initializer=dataclasses.asdict(config.initializer),
        optimizer=optimizer.name,
        hyperparameters=optimizer_schema()[optimizer.name] | dict(optimizer.hyperparameters),
        guards=dict(optimizer.guards),
        admission=dataclasses.asdict(config.admission),
    )


def salt_of(table: str, *, seed: int) -> int:
    """Return the number that tells the first rows of this table and seed from all others."""
    digest = hashlib.blake2b(f"{seed}/{table}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
