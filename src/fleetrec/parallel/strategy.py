"""How many processes make one step; whoever trains talks to this and nothing below it."""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.tasks.task import Outputs

# Tensors by file, then by name: what a checkpoint holds of one phase.
State = Mapping[str, Mapping[str, Tensor]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What came out of one batch."""

    outputs: Outputs
    loss: Tensor


class Strategy(Protocol):
    """Makes steps and keeps the state of one model."""

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch; returns the outputs from before the update."""
        ...

    def evaluate(self, batch: Batch) -> Step:
        """Return outputs and loss without learning; creates no rows."""
        ...

    def end_pass(self, *, event_time: int) -> None:
        """Do what is due after a pass over the data: rows that are not wanted any more go."""
        ...

    def table_stats(self) -> dict[str, dict[str, int]]:
        """Return rows, candidates, bytes, created and evicted of every growing table."""
        ...

    def state(self) -> State:
        """Return everything a resumed run needs."""
        ...

    def load_state(self, state: State) -> None:
        """Take up a ``state`` exactly."""
        ...
