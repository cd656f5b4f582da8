"""The contract of saved state: a model can be saved while it trains, and loaded by any group."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Protocol

from torch import Tensor

from fleetrec.embedding.record import StoredTable, TableRecord

STEP = "step"  # in optimizer tensors: the number of steps so far, where updates depend on it

# Tensors by file, then by name: what a checkpoint holds of the dense part of one phase.
DenseState = Mapping[str, Mapping[str, Tensor]]
TableStats = Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SavedModel:
    """One phase of a checkpoint: tensors in memory, tables still in their files."""

    tensors: DenseState
    tables: Mapping[str, StoredTable]


class StateCut(Protocol):
    """The state of a model at one moment. Training continues while it is written.

    ``write`` and then ``finish`` are called once by every process that cut, in any thread.
    """

    @property
    def dense(self) -> DenseState:
        """Return the tensors of the dense part at the cut, on the chief; empty elsewhere."""
        ...

    @property
    def worker_progress(self) -> list[bytes]:
        """Return every worker's progress at the cut; empty where all share that of the chief."""
        ...

    def write(self, target: str) -> dict[str, TableRecord]:
        """Write the tables that this process holds below the URL ``target`` of a staging folder.

        Each table gets a folder of its name. Returns the records of all tables on the chief, and
        nothing elsewhere. A process that cannot write makes the call fail on the chief.
        """
        ...

    def finish(self, *, published: bool, error: str = "") -> bool:
        """Commit the cut as the parent of the next delta if the chief has published it.

        Returns what the chief passed, on every process. ``error`` is why the chief could not save;
        it returns when all processes know it, and the others raise CheckpointError with it.
        """
        ...


class ModelState(Protocol):
    """The state of one model. Every process of a ``Group.rule_group`` makes the same calls.

    Reading never touches the live model.
    """

    def variables(self) -> list[str]:
        """Return the names of parameters, buffers and tables."""
        ...

    def stats(self) -> dict[str, TableStats]:
        """Return rows, candidates, bytes, created and evicted (also by rule) of growing tables.

        Unlike the other calls this one is made by every process of a group at the same step.
        """
        ...

    def cut(self, *, parent: str | None) -> StateCut:
        """Fix the state of this moment.

        With ``parent``, the URL of the checkpoint committed last relative to the new one, tables
        become deltas; if a process does not know what has changed since, they become bases.
        """
        ...

    def load(self, saved: SavedModel, *, exact: bool) -> None:
        """Load a model: weights and rows, and if ``exact`` also the state of optimizers.

        With workers of servers, those that are not in the ``rule_group`` call it too, later, and
        load what each worker holds for itself. After an error the tables are empty.
        """
        ...

    def load_variables(self, saved: SavedModel, names: Collection[str]) -> list[str]:
        """Load the named variables that the checkpoint has in a fitting shape; returns those."""
        ...

    def clear(self) -> None:
        """Delete all rows."""
        ...

    def export_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table on the chief, for an inference model."""
        ...
