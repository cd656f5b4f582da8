"""Rows in the native table of this process."""

# Shape suffixes: N ids, D width of a row.

import dataclasses
import hashlib
import math
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fleetrec._native import Cut, Table, optimizer_schema, read_snapshot
from fleetrec.core.errors import CheckpointError, MismatchError
from fleetrec.core.event_time import SECONDS_PER_DAY
from fleetrec.embedding.record import (
    Chain,
    ParentRecord,
    ShardRecord,
    StoredTable,
    TableIdentity,
    TableRecord,
    WrittenTable,
    counts_of,
    to_hex,
)
from fleetrec.embedding.sharding import (
    NUM_BUCKETS,
    WHOLE_TABLE,
    TableShard,
    merge_table_records,
    num_shards_each,
)
from fleetrec.embedding.snapshot import SUFFIX, Columns, checkpoint_errors, live_rows, open_shards
from fleetrec.embedding.store import Store
from fleetrec.embedding.table import RowOptimizer, TableConfig


class NativeStore(Store):
    """A ``Store`` in native memory; batched lookups use ``table``."""

    def __init__(
        self,
        config: TableConfig,
        optimizer: RowOptimizer,
        *,
        seed: int,
        shard: TableShard = WHOLE_TABLE,
    ) -> None:
        self._config = config
        self.shard = shard
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
            long_vector=None
            if config.long_vector is None
            else dataclasses.astuple(config.long_vector),
            is_dense=config.is_swept(optimizer),
            buckets=shard.buckets,
        )
        self.identity = identity_of(config, optimizer, seed=seed)
        self._fingerprint: str | None = None  # of the snapshot that was committed or read last

    def __len__(self) -> int:
        return len(self.table)

    @property
    def config(self) -> TableConfig:
        """Return how the table is configured."""
        return self._config

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
        """Write the table into a new folder, without a copy in memory.

        Args:
            directory: Where the files go.
            parent: Folder of the snapshot committed or read last, to write the changes since then.
                None: write all rows.
        """
        cut = self.cut()
        record = cut.write(directory, parent=parent)
        return WrittenTable(record=record, commit=cut.commit)

    def cut(self, *, least: int = 0) -> "TableCut":
        """Fix the content of the table as it is now, to be written while training continues.

        Args:
            least: The version of the table is raised to this first, if it is lower: the shards of
                one snapshot must have the same version.
        """
        return TableCut(self, least=least)

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the parent of the next delta; None: only a base can be written."""
        return self._fingerprint

    def continue_from(self, fingerprint: str | None) -> None:
        """Set the parent of the next delta, once it is committed."""
        self._fingerprint = fingerprint

    def load(self, stored: StoredTable) -> None:
        """Load a table with optimizer state; on error the table is empty."""
        record, where = stored.record, stored.chain.name
        self.clear()
        differences = record.identity.differences(self.identity)
        if differences:
            raise MismatchError(
                f"{where}: table {stored.name} does not match this table: {'; '.join(differences)}"
            )
        with stored.chain.local() as chain, checkpoint_errors():
            figures = read_snapshot(self.table, chain.directories)
        if to_hex(figures["fingerprint"]) != record.fingerprint:
            self.clear()
            raise CheckpointError(f"{where}: damaged: these are not the files of the manifest")
        is_first = self.shard.index == 0  # created and evicted rows are counted once
        self.table.restore_counts(**counts_of(record.to_plain() if is_first else {}))
        self._fingerprint = record.fingerprint

    def load_rows(self, stored: StoredTable) -> None:
        """Load weights, shows and clicks of all rows; optimizer state and time are reset."""
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
        """Return the rows that belong to this shard."""
        if self.shard.count == 1:
            return block
        first, last = self.shard.buckets
        buckets_N = self.table.buckets_of(block["ids"].view(np.int64))
        is_held_N = (buckets_N >= first) & (buckets_N < last)
        return {name: column[is_held_N] for name, column in block.items()}

    def clear(self) -> None:
        """Remove all rows."""
        self.table.clear()
        self._fingerprint = None

    def evict(self, *, now: int, ends_day: bool, max_unseen_days: int | None = None) -> int:
        """Evict rows by the rules of the table after a pass; returns how many.

        Args:
            now: Event time.
            ends_day: Whether the pass ends a day: only then rows are evicted by age and score.
            max_unseen_days: Replaces that of the table.
        """
        num_removed = self._evict_by_day(now, max_unseen_days) if ends_day else 0
        max_rows = self._config.eviction.max_rows
        if max_rows is not None:  # of which a part of the table has its part
            first, last = self.shard.buckets
            capacity = -(-max_rows * (last - first) // NUM_BUCKETS)
            num_removed += len(self.table.evict_beyond(capacity=capacity))
        return num_removed

    def _evict_by_day(self, now: int, max_unseen_days: int | None) -> int:
        rule = self._config.eviction
        max_days = rule.max_unseen_days if max_unseen_days is None else max_unseen_days
        num_removed = 0
        if max_days is not None:
            before = max(0, now - max_days * SECONDS_PER_DAY)
            num_removed += len(self.table.evict_unseen(before=before))
        if rule.min_score is not None or rule.decay != 1.0:
            removed = self.table.evict_low_scores(
                decay=rule.decay,
                threshold=-math.inf if rule.min_score is None else rule.min_score,
                show_weight=rule.show_weight,
                click_weight=rule.click_weight,
            )
            num_removed += len(removed)
        return num_removed


class TableCut:
    """The table of a store as it was at one moment. Write it once, publish the files, commit.

    The cut itself copies nothing, and training may continue at once, also while another thread
    writes: a row is copied before it first changes. ``num_threads`` of a write is how many files
    are written at a time. 1 leaves the other cores to training; None takes them all.

    Without the commit, the next snapshot contains all changes of this one. Close a cut that is not
    going to be written: it copies rows until then.
    """

    def __init__(self, store: NativeStore, *, least: int) -> None:
        self._store = store
        self._cut = Cut(store.table, least=least)
        self._fingerprint: str | None = None  # of what was written, if that is a whole table

    @property
    def version(self) -> int:
        """The version of the table at the cut; the same in all shards of one snapshot."""
        return self._cut.version

    @property
    def stats(self) -> dict[str, int]:
        """Return rows, candidates, created and evicted (also by rule) at the cut."""
        return self._cut.stats

    def write(
        self, directory: Path, *, parent: str | None, num_threads: int | None = None
    ) -> TableRecord:
        """Write a table that this process holds alone into a new folder.

        Args:
            directory: Where the files go.
            parent: Folder of the snapshot committed or read last, to write the changes since then.
                None: write all rows.
            num_threads: See the class.
        """
        store = self._store
        assert store.shard.count == 1, "one of several holders writes its own files: write_shard"
        before = None
        if parent is not None:
            assert store.fingerprint is not None, "a delta needs a parent snapshot"
            before = ParentRecord(path=parent, fingerprint=store.fingerprint)
        directory.mkdir(parents=True)
        part = self.write_shard(
            directory,
            parent=before.fingerprint if before else None,
            shards_each=num_shards_each(store.config, [self.stats]),
            num_threads=num_threads,
        )
        record = merge_table_records(store.identity, [part], parent=before)
        self._fingerprint = record.fingerprint
        return record

    def write_shard(
        self,
        directory: Path,
        *,
        parent: str | None,
        shards_each: int,
        num_threads: int | None = None,
    ) -> ShardRecord:
        """Write this holder's files of a snapshot that all holders write together.

        Files of an earlier attempt are replaced.

        Args:
            directory: An existing folder, the same for all holders.
            parent: The fingerprint of the snapshot that a delta builds on. None: a base.
            shards_each: How many files each holder writes.
            num_threads: See the class.

        Raises:
            MismatchError: ``parent`` is not the last snapshot of this shard: only a base is
                possible.
        """
        store = self._store
        if parent is not None and parent != store.fingerprint:
            self.close()
            raise MismatchError(
                f"table {store.config.name}: expected to write what changed since the snapshot "
                f"{parent}, but shard {store.shard.index} of {store.shard.count} was last written "
                f"or read as {store.fingerprint}; write a full checkpoint instead"
            )
        kind: Literal["base", "delta"] = "base" if parent is None else "delta"
        first, last = store.shard.files(shards_each)
        num_shards = shards_each * store.shard.count
        for number in range(first, last):
            (directory / f"{number:05d}-of-{num_shards:05d}{SUFFIX}").unlink(missing_ok=True)
        figures = self._cut.write(
            directory,
            kind=kind,
            num_shards=num_shards,
            shards=(first, last),
            num_threads=num_threads,
        )
        return ShardRecord(
            kind=kind, version=self.version, crcs=tuple(figures["crcs"]), **self.stats
        )

    def commit(self, fingerprint: str | None = None) -> None:
        """Start the next delta at this cut. Call it when the files are published.

        Training steps may run meanwhile.

        Args:
            fingerprint: That of the merged record, where several holders wrote the snapshot.
        """
        if fingerprint is None:
            assert self._fingerprint is not None, "several holders commit a merged record"
            self._cut.commit()
        else:
            self._cut.commit(fingerprint=int(fingerprint, 16))
        self._store.continue_from(fingerprint or self._fingerprint)

    def close(self) -> None:
        """Release the content if it is unwritten; an unwritten cut cannot be committed."""
        self._cut.release()


def identity_of(config: TableConfig, optimizer: RowOptimizer, *, seed: int) -> TableIdentity:
    """Return all settings that determine how rows are created and updated."""
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
        long_vector=None if config.long_vector is None else dataclasses.asdict(config.long_vector),
    )


def salt_of(table: str, *, seed: int) -> int:
    """Return the seed of the first rows, from the seed of the run and the name of the table."""
    digest = hashlib.blake2b(f"{seed}/{table}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
