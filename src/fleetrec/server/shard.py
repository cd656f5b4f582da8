"""One server's shard of every table, and its slice of the dense weights."""

# Shape suffixes: N ids, D width of a row, P dense weights of this server.

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from fleetrec._native import Cut, read_snapshot
from fleetrec.embedding.native_store import TableCut
from fleetrec.embedding.record import StoredTable, counts_of
from fleetrec.embedding.sharding import TableShard
from fleetrec.embedding.snapshot import checkpoint_errors
from fleetrec.optim.dense import row_rate
from fleetrec.server.dense import DensePart
from fleetrec.server.evict_request import EvictionRequest
from fleetrec.server.push import Push, RowPush
from fleetrec.server.spec import ServedModel, build_stores
from fleetrec.server.wire import Array

DENSE_FILE = "dense.safetensors"
COUNTS_FILE = "counts.json"
TABLES = "tables"


class Shard:
    """Tables and dense weights of a server. Not thread-safe."""

    def __init__(self, model: ServedModel, table_shard: TableShard, dense_P: Tensor) -> None:
        self.model = model
        self.table_shard = table_shard
        self.stores = build_stores(model, table_shard)
        self.dense = DensePart(model, table_shard, dense_P)

    def read(self, ids: Sequence[Array], *, as_new: bool) -> list[Array]:
        """Return rows_ND and is_there_N of every table, in the order of tables.

        With ``as_new``, an id that gets a row at once is returned as it will be created; other
        missing rows are zeros. Nothing is created.
        """
        answer: list[Array] = []
        for store, ids_N in zip(self.stores.values(), ids, strict=True):
            answer += store.table.read(ids_N, as_new=as_new)
        return answer

    def apply(self, pushes: Sequence[Push]) -> None:
        """Apply the pushes of one step: their mean, weighted by the number of samples."""
        total = sum(push.num_samples for push in pushes)
        weights = [push.num_samples / total for push in pushes]
        for index, store in enumerate(self.stores.values()):
            tables = [push.tables[index] for push in pushes]
            for push, rows in zip(pushes, tables, strict=True):
                store.table.count_impressions(
                    rows.ids_N, rows.shows_N, rows.clicks_N, now=push.event_time
                )
            ids_N, grads_ND = _concatenate(tables, weights)
            if len(ids_N) or store.config.is_dense:
                rate = row_rate(self.model.table_optimizer(index), self.dense.num_steps)
                store.table.push(ids_N, grads_ND, lr=self.model.tables[index].row_rate(rate))
        self.dense.apply(_weighted_mean([push.grads_P for push in pushes], weights))

    def evict(self, eviction: EvictionRequest) -> None:
        """Evict rows by the rules of their tables."""
        for store in self.stores.values():
            store.evict(**dataclasses.asdict(eviction))

    def stats(self) -> dict[str, dict[str, int]]:
        """Return rows, candidates, bytes, created and evicted (also by rule) of every table."""
        return {name: store.table.stats() for name, store in self.stores.items()}

    def clear(self) -> None:
        """Delete all rows."""
        for store in self.stores.values():
            store.clear()

    def load_table(self, stored: StoredTable, *, exactly: bool) -> None:
        """Load this server's shard of a table: all of it, or only the weights."""
        store = self.stores[stored.name]
        if exactly:
            store.load(stored)
        else:
            store.load_rows(stored)

    def cut(self, *, least: Mapping[str, int]) -> "ShardCut":
        """Fix the current state; table versions are at least those of ``least``."""
        return ShardCut(
            tables={n: s.cut(least=least.get(n, 0)) for n, s in self.stores.items()},
            stats=self.stats(),
            fingerprints={name: store.fingerprint for name, store in self.stores.items()},
            dense={key: value.clone() for key, value in self.dense.state().items()},
        )

    def snapshot(self) -> "ShardSnapshot":
        """Fix the current state for a snapshot of this server, which is written later."""
        return ShardSnapshot(
            tables={name: Cut(store.table) for name, store in self.stores.items()},
            counts=self.stats(),
            dense={key: value.clone() for key, value in self.dense.state().items()},
        )

    def read_folder(self, directory: Path) -> None:
        """Load what ``ShardSnapshot.write`` wrote."""
        counts: Mapping[str, Mapping[str, int]] = json.loads((directory / COUNTS_FILE).read_text())
        for name, store in self.stores.items():
            with checkpoint_errors():
                read_snapshot(store.table, [directory / TABLES / name])
            store.table.restore_counts(**counts_of(counts[name]))
        self.dense.load(load_file(directory / DENSE_FILE))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardCut:
    """The state of a server at one moment; tables are written while steps continue."""

    tables: Mapping[str, TableCut]
    stats: Mapping[str, Mapping[str, int]]
    fingerprints: Mapping[str, str | None]  # of the parent snapshots of deltas
    dense: Mapping[str, Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardSnapshot:
    """The state of a server at one moment, in a format for this server only."""

    tables: Mapping[str, Cut]
    counts: Mapping[str, Mapping[str, int]]
    dense: Mapping[str, Tensor]

    def write(self, directory: Path) -> None:
        """Write everything into a new folder; steps may continue meanwhile."""
        for name, cut in self.tables.items():
            folder = directory / TABLES / name
            folder.mkdir(parents=True)
            cut.write(folder, kind="base", num_threads=1)
        (directory / COUNTS_FILE).write_text(json.dumps(self.counts))
        (directory / DENSE_FILE).write_bytes(
            save(dict(self.dense))
        )  # raises OSError on a full disk; save_file does not

    def close(self) -> None:
        """Give up what is not written yet; a ``write`` in another thread fails."""
        for cut in self.tables.values():
            cut.release()


def _concatenate(tables: Sequence[RowPush], weights: Sequence[float]) -> tuple[Array, Array]:
    """Return ids and weighted gradients of all pushes; the table sums them by id."""
    if len(tables) == 1:
        grads_MD = tables[0].grads_MD
        return tables[0].ids_N[: len(grads_MD)], grads_MD
    ids = [rows.ids_N[: len(rows.grads_MD)] for rows in tables]
    grads = [rows.grads_MD * np.float32(w) for rows, w in zip(tables, weights, strict=True)]
    return np.concatenate(ids), np.concatenate(grads)


def _weighted_mean(grads: Sequence[Array], weights: Sequence[float]) -> Tensor:
    mean_P = grads[0] * np.float32(weights[0])
    for grads_P, weight in zip(grads[1:], weights[1:], strict=True):
        mean_P += grads_P * np.float32(weight)
    return torch.from_numpy(mean_P)
