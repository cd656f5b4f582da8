"""The state of a model whose tables this process holds: all of them, or its shards."""

import contextlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from fleetrec.checkpoint.staging import writable_folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, FleetRecError, LostRankError
from fleetrec.embedding.native_store import NativeStore, TableCut
from fleetrec.embedding.record import ParentRecord, ShardRecord, StoredTable, TableRecord
from fleetrec.embedding.sharding import merge_table_records, num_shards_each, sum_stats
from fleetrec.models.base import Model
from fleetrec.parallel.dense_local import LocalDense, load_fitting_weights, load_model_weights
from fleetrec.parallel.state import DenseState, SavedModel, TableStats


class Holders(Protocol):
    """How the processes that hold shards of the same tables talk to each other."""

    @property
    def is_chief(self) -> bool:
        """Return whether this process merges what all have written."""
        ...

    def all_gather(self, content: bytes) -> list[bytes]:
        """Return the contents of all processes, in rank order."""
        ...

    def gather_to_chief(self, content: bytes) -> list[bytes]:
        """Return the contents of all processes on the chief."""
        ...

    def gather_saved(self, content: bytes) -> list[bytes]:
        """The same for a thread that saves, while the main thread may gather, too."""
        ...

    def broadcast_saved(self, content: bytes) -> bytes:
        """Return the content of the chief; callable by a thread that saves."""
        ...


class OneHolder:
    """A process that holds every table alone."""

    is_chief = True

    def all_gather(self, content: bytes) -> list[bytes]:
        """Return the content of this process."""
        return [content]

    def gather_to_chief(self, content: bytes) -> list[bytes]:
        """Return the content of this process."""
        return [content]

    def gather_saved(self, content: bytes) -> list[bytes]:
        """Return the content of this process."""
        return [content]

    def broadcast_saved(self, content: bytes) -> bytes:
        """Return the content of this process."""
        return content


class HeldCut:
    """Tables and dense network at one moment; see ``StateCut``."""

    worker_progress: list[bytes] = []

    def __init__(
        self,
        cuts: Mapping[str, TableCut],
        stores: Mapping[str, NativeStore],
        holders: Holders,
        *,
        dense: DenseState,
        shards_each: Mapping[str, int],
        parents: Mapping[str, ParentRecord],
    ) -> None:
        self.dense = dense
        self._cuts = cuts
        self._stores = stores
        self._holders = holders
        self._shards_each = shards_each
        self._parents = parents
        self._fingerprints: dict[str, str] = {}

    def write(self, target: str) -> dict[str, TableRecord]:
        """Write the tables that this process holds; see ``StateCut.write``."""
        answer: dict[str, Any] = {}
        try:
            answer["tables"] = {
                name: self._write_table(name, cut, storage.join(target, name))
                for name, cut in self._cuts.items()
            }
        except (OSError, FleetRecError) as error:
            answer["error"] = str(error)
        found = self._holders.gather_saved(json.dumps(answer).encode())
        if not self._holders.is_chief:
            return {}
        answers = [json.loads(one) for one in found]
        for one in answers:
            if "error" in one:
                raise CheckpointError(str(one["error"]))
        records = {name: self._merge(name, answers) for name in self._stores}
        self._fingerprints = {name: record.fingerprint for name, record in records.items()}
        return records

    def finish(self, *, published: bool, error: str = "") -> bool:
        """Commit the cut if the chief has published it; see ``StateCut.finish``."""
        verdict = {"published": published, "error": error, "fingerprints": self._fingerprints}
        decided = json.loads(self._holders.broadcast_saved(json.dumps(verdict).encode()))
        if decided["published"]:
            for name, cut in self._cuts.items():
                cut.commit(decided["fingerprints"][name])
        for cut in self._cuts.values():
            cut.close()
        self._cuts = {}
        if decided["error"]:
            with contextlib.suppress(LostRankError):  # the chief may have ended by now
                self._holders.gather_saved(b"")
            if not self._holders.is_chief:
                raise CheckpointError(str(decided["error"]))
        return bool(decided["published"])

    def _write_table(self, name: str, cut: TableCut, url: str) -> dict[str, Any]:
        parent = self._parents.get(name)
        with writable_folder(url) as directory:
            record = cut.write_shard(
                directory,
                parent=None if parent is None else parent.fingerprint,
                shards_each=self._shards_each[name],
                num_threads=1,  # the others train
            )
        return record.to_plain()

    def _merge(self, name: str, answers: list[dict[str, Any]]) -> TableRecord:
        parts = [one["tables"][name] for one in answers if name in one["tables"]]
        return merge_table_records(
            self._stores[name].identity,
            [ShardRecord.model_validate(part) for part in parts],
            parent=self._parents.get(name),
        )


class HeldState:
    """Tables in the stores of this process and a dense network with its optimizer.

    A table that is sharded is held by all processes of ``holders`` together; of a table that is
    not, the chief's copy is saved.
    """

    def __init__(
        self,
        model: Model,
        stores: Mapping[str, NativeStore],
        dense: LocalDense,
        holders: Holders,
    ) -> None:
        self._model = model
        self._stores = stores
        self._dense = dense
        self._holders = holders

    @property
    def stores(self) -> Mapping[str, NativeStore]:
        """Return the stores of this process by table."""
        return self._stores

    def variables(self) -> list[str]:
        """Return the names of parameters, buffers and tables."""
        return [*self._model.state_dict(), *self._stores]

    def stats(self) -> dict[str, TableStats]:
        """Return rows, candidates, bytes, created and evicted (also by rule) of growing tables."""
        own = {n: s.table.stats() for n, s in self._stores.items() if s.config.num_rows is None}
        if not own:
            return {}
        found = [json.loads(one) for one in self._holders.all_gather(json.dumps(own).encode())]
        return {
            name: sum_stats([one[name] for one in found]) if self._is_sharded(name) else stats
            for name, stats in own.items()
        }

    def cut(self, *, parent: str | None) -> HeldCut:
        """Fix the state of this moment; see ``ModelState.cut``."""
        own = {
            name: {
                "stats": store.table.stats(),
                "version": store.table.version,
                "fingerprint": store.fingerprint,
            }
            for name, store in self._stores.items()
        }
        found = [json.loads(one) for one in self._holders.all_gather(json.dumps(own).encode())]
        cuts: dict[str, TableCut] = {}
        shards_each: dict[str, int] = {}
        parents: dict[str, ParentRecord] = {}
        for name, store in self._stores.items():
            parts = [one[name] for one in found] if self._is_sharded(name) else [found[0][name]]
            shards_each[name] = num_shards_each(store.config, [part["stats"] for part in parts])
            fingerprints = {part["fingerprint"] for part in parts}
            if parent is not None and len(fingerprints) == 1 and None not in fingerprints:
                parents[name] = ParentRecord(path=parent, fingerprint=fingerprints.pop())
            if self._is_sharded(name) or self._holders.is_chief:
                cuts[name] = store.cut(least=max(part["version"] for part in parts))
        return HeldCut(
            cuts,
            self._stores,
            self._holders,
            dense=self._dense.state() if self._holders.is_chief else {},
            shards_each=shards_each,
            parents=parents,
        )

    def load(self, saved: SavedModel, *, exact: bool) -> None:
        """Load a model; after an error the tables are empty."""
        try:
            for name, store in self._stores.items():
                stored = require_table(saved.tables, name)
                if exact:
                    store.load(stored)
                else:
                    store.load_rows(stored)
        except CheckpointError:
            self.clear()
            raise
        if exact:
            self._dense.load_state(saved.tensors)
        else:
            load_model_weights(self._model, saved.tensors)
            self._dense.clear_optimizer()

    def load_variables(self, saved: SavedModel, names: Collection[str]) -> list[str]:
        """Load the named variables that the checkpoint has in a fitting shape; returns those."""
        fit = load_fitting_weights(self._model, saved.tensors, list(names))
        widths = {name: store.dim for name, store in self._stores.items()}
        tables = fitting_tables(widths, saved.tables, names)
        for name in tables:
            self._stores[name].load_rows(saved.tables[name])
        return [*fit, *tables]

    def clear(self) -> None:
        """Delete all rows."""
        for store in self._stores.values():
            store.clear()

    def export_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table on the chief, in the order of unsigned ids."""
        return {name: self._export(name) for name in self._stores}

    def _export(self, name: str) -> dict[str, Tensor]:
        taken = self._stores[name].snapshot()
        own = {column: taken[column] for column in ("ids", "rows")}
        if not self._is_sharded(name):
            return own
        parts = [load(part) for part in self._holders.gather_to_chief(save(own)) if part]
        if not self._holders.is_chief:
            return {}
        rows = {column: torch.cat([part[column] for part in parts]) for column in own}
        order_N = np.argsort(rows["ids"].numpy().view(np.uint64), kind="stable")
        return {column: value[order_N] for column, value in rows.items()}

    def _is_sharded(self, table: str) -> bool:
        return self._stores[table].shard.count > 1


def require_table(tables: Mapping[str, StoredTable], name: str) -> StoredTable:
    """Return a table of a checkpoint, which must be there."""
    if name not in tables:
        raise CheckpointError(f"the checkpoint has no table {name!r}")
    return tables[name]


def fitting_tables(
    widths: Mapping[str, int], tables: Mapping[str, StoredTable], names: Collection[str]
) -> list[str]:
    """Return the named tables that a checkpoint has with rows of the same width."""
    return [
        name
        for name in names
        if name in widths and name in tables and tables[name].record.identity.dim == widths[name]
    ]
