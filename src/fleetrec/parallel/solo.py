"""A group of one process."""

import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.errors import CheckpointError
from fleetrec.data.plan import DataShard
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import StoredTable, TableRecord, WrittenTable
from fleetrec.models.base import Model
from fleetrec.parallel.dense_local import LocalDense, load_fitting_weights, load_model_weights
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.group import BuiltModel, ModelOptions
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.rows_local import LocalRows
from fleetrec.parallel.state import DenseState, SavedModel, TableStats
from fleetrec.parallel.stepper import Stepper
from fleetrec.parallel.transfer import transfer_to


class SoloGroup:
    """One process that does everything."""

    rank = 0
    size = 1
    is_chief = True
    num_passes_done = 0

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.shard = DataShard()

    @property
    def rule_group(self) -> "SoloGroup":
        """Return this group: one process saves and evaluates by itself."""
        return self

    def all_gather(
        self,
        content: bytes,
        *,
        key: str,  # noqa: ARG002
        pass_index: int | None,  # noqa: ARG002
    ) -> list[bytes]:
        """Return the content of this process."""
        return [content]

    def broadcast(
        self,
        content: bytes,
        *,
        key: str,  # noqa: ARG002
        pass_index: int | None,  # noqa: ARG002
    ) -> bytes:
        """Return the content of this process."""
        return content

    def any_rank(self, flag: bool) -> bool:  # noqa: FBT001
        """Return the flag."""
        return flag

    def align_steps(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:  # noqa: ARG002
        """Return the batches as they are."""
        return batches

    def load_progress(self) -> bytes:
        """Return b"": nothing outlives the process but checkpoints."""
        return b""

    def worker_progress(self) -> list[bytes]:
        """Return nothing: there is one process."""
        return []

    def build(self, model: Model, options: ModelOptions) -> BuiltModel:
        """Prepare a model for training in this process."""
        tables = model.embedding_collection().tables
        model.to(self.device)
        plan = OptimizerPlan(model, options.optimizers)
        stores = {
            name: NativeStore(table, plan.row_optimizer(name), seed=options.seed)
            for name, table in tables.items()
        }
        frozen = freeze(model, tables, options.frozen)
        dense = LocalDense(model, plan)
        return BuiltModel(
            stepper=Stepper(
                model,
                LocalRows(model, stores, plan, frozen=frozen),
                dense,
                transfer=transfer_to(self.device),
                update=options.update,
                seed=options.seed,
            ),
            state=SoloState(model, stores, dense),
        )

    def close(self, *, finished: bool) -> None:
        """Do nothing."""


class SoloCut:
    """Tables written to a folder of their own at the cut, and moved where they are wanted."""

    worker_progress: list[bytes] = []

    def __init__(
        self, dense: DenseState, stores: Mapping[str, NativeStore], parent: str | None
    ) -> None:
        self.dense = dense
        self._folder = tempfile.TemporaryDirectory(prefix="fleetrec-cut-")
        self._written: dict[str, WrittenTable] = {
            name: store.write(Path(self._folder.name) / name, parent=parent)
            for name, store in stores.items()
        }

    def write(self, target: str) -> dict[str, TableRecord]:
        """Move the files below ``target``."""
        import shutil

        for name in self._written:
            shutil.copytree(Path(self._folder.name) / name, Path(target) / name)
        return {name: written.record for name, written in self._written.items()}

    def finish(self, *, published: bool) -> bool:
        """Commit what was published."""
        if published:
            for written in self._written.values():
                written.commit()
        self._folder.cleanup()
        return published


class SoloState:
    """Tables and dense network of one process."""

    def __init__(self, model: Model, stores: Mapping[str, NativeStore], dense: LocalDense) -> None:
        self._model = model
        self._stores = stores
        self._dense = dense
        self._tables = model.embedding_collection().tables

    def variables(self) -> list[str]:
        """Return the names of parameters, buffers and tables."""
        return [*self._model.state_dict(), *self._stores]

    def stats(self) -> dict[str, TableStats]:
        """Return rows, candidates, bytes, created and evicted of every growing table."""
        growing = [name for name, table in self._tables.items() if table.num_rows is None]
        return {name: self._stores[name].table.stats() for name in growing}

    def cut(self, *, parent: str | None) -> SoloCut:
        """Fix the state of this moment."""
        return SoloCut(self._dense.state(), self._stores, parent)

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
        tables = [name for name in names if self._fits(name, saved.tables)]
        for name in tables:
            self._stores[name].load_rows(saved.tables[name])
        return [*fit, *tables]

    def clear(self) -> None:
        """Delete all rows."""
        for store in self._stores.values():
            store.clear()

    def export_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table, for an inference model."""
        taken = {name: store.snapshot() for name, store in self._stores.items()}
        return {n: {column: t[column] for column in ("ids", "rows")} for n, t in taken.items()}

    def _fits(self, table: str, tables: Mapping[str, StoredTable]) -> bool:
        if table not in self._stores or table not in tables:
            return False
        return tables[table].record.identity.dim == self._tables[table].dim


def require_table(tables: Mapping[str, StoredTable], name: str) -> StoredTable:
    """Return a table of a checkpoint, which must be there."""
    if name not in tables:
        raise CheckpointError(f"the checkpoint has no table {name!r}")
    return tables[name]
