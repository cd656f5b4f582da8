"""How many processes make one step; whoever trains talks to this and nothing below it."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from torch import Tensor

from fleetrec.checkpoint.staging import Staging
from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.record import StoredTable, WrittenTable
from fleetrec.tasks.task import Outputs

STEP = "step"  # in a state: how many steps were made, beside what optimizers keep

# Tensors by file, then by name: what a checkpoint holds of the dense part of one phase.
State = Mapping[str, Mapping[str, Tensor]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SavedPhase:
    """One phase in a checkpoint: tensors in memory, tables still in their files."""

    tensors: State
    tables: Mapping[str, StoredTable]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What came out of one batch, and the learning rate if it was learnt from."""

    outputs: Outputs
    loss: Tensor
    lr: float | None = None


class Strategy(Protocol):
    """Makes steps and keeps the state of one model, alone or together with other workers."""

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that loads and saves for all."""
        ...

    def keep(self, progress: bytes) -> None:
        """Say where the run stands behind the next step, for a state that outlives the process."""
        ...

    def recall(self) -> bytes:
        """Return what was kept with the last step that counts; nothing in a new run."""
        ...

    @property
    def num_passes_before(self) -> int:
        """How many passes all workers had made when this process joined them."""
        ...

    def gather(self, name: str, content: bytes, *, number: int) -> list[bytes]:
        """Meet the other workers; returns what all bring, in their order.

        ``number`` counts meetings of one name in time: 0 for one that takes place once in a run,
        else the pass plus one.
        """
        ...

    def together(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:
        """Yield the batches of a pass, of which each gets a step.

        Where workers make every step together, blank ones follow while others have more.
        """
        ...

    def agrees(self, wish: bool) -> bool:  # noqa: FBT001
        """Tell whether all workers shall do now what this one, or another, has wished."""
        ...

    def standings(self) -> list[bytes]:
        """Wait until the steps made so far count; returns what each worker kept with its last one.

        Nothing where no others are.
        """
        ...

    def num_waiting(self) -> int:
        """Return how many steps were made that do not count yet: pushes on their way."""
        ...

    @property
    def looks_ahead(self) -> bool:
        """Whether this strategy wants to know which batch comes next."""
        ...

    def expect(self, batch: Batch) -> None:
        """Be told what comes next; it may be prepared while the current batch is computed.

        The call precedes the ``train_step`` of the current batch. What is expected may never come.
        """
        ...

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch; returns the outputs from before the update."""
        ...

    def evaluate(self, batch: Batch) -> Step:
        """Return outputs and loss without learning; creates no rows."""
        ...

    def end_pass(self, *, epoch: int) -> None:
        """Do what is due after a pass over the data: rows that are not wanted any more go."""
        ...

    def table_stats(self) -> dict[str, dict[str, int]]:
        """Return rows, candidates, bytes, created and evicted of every growing table."""
        ...

    def state(self) -> State:
        """Return everything a resumed run needs beside the tables."""
        ...

    def write_tables(
        self, staging: Staging, folder: str, *, parent: str | None
    ) -> dict[str, WrittenTable]:
        """Let every table write itself into a folder of its name below ``folder``.

        Where several processes hold shards of a table, each writes its own. ``parent`` is the
        checkpoint that was committed last, relative to this one: then deltas are written.
        """
        ...

    def load_tables(self, tables: Mapping[str, StoredTable]) -> None:
        """Take up tables exactly; after an error they are empty, as in a new run."""
        ...

    def clear_tables(self) -> None:
        """Forget all rows."""
        ...

    def load_state(self, state: State) -> None:
        """Take up a ``state`` exactly."""
        ...

    def load_weights(self, saved: SavedPhase) -> None:
        """Take up model weights and rows, which must fit; optimizers begin anew.

        Where rows are held by others, the chief sees to them, and all may call this.
        """
        ...

    def variables(self) -> list[str]:
        """Return the names under which parameters and tables are loaded or frozen."""
        ...

    def load_variables(self, saved: SavedPhase, names: Collection[str]) -> list[str]:
        """Take up the named variables that the checkpoint has; returns those that were loaded."""
        ...

    def frozen_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table, for an inference model."""
        ...

    def finish(self) -> None:
        """Tell servers that this worker needs them no more; without a worker they end."""
        ...

    def close(self) -> None:
        """Let go of other processes."""
        ...
