"""The contract of rows: where a step gets its embedding rows, and where their gradients go."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.progress import Progress
from fleetrec.embedding.lookup import LookedUp
from fleetrec.embedding.native_store import NativeStore
from fleetrec.models.base import Model


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PassEnd:
    """The end of a pass, at event time ``now``.

    Rows are evicted by age and score only where it ``ends_day``. ``max_unseen_days`` replaces that
    of the tables.
    """

    pass_index: int
    now: int
    ends_day: bool
    max_unseen_days: int | None = None


class Rows(Protocol):
    """The rows of one model, for the steps of one process."""

    @property
    def prefetches(self) -> bool:
        """Return whether it pays to call ``prefetch``."""
        ...

    def prefetch(self, batch: Batch) -> None:
        """Note the batch after the current one; has no lasting effect."""
        ...

    def start_prefetch(self) -> None:
        """Start to prepare the noted batch; called when the current batch has all it needs."""
        ...

    def pull(self, batch: Batch, *, training: bool) -> LookedUp:
        """Look up the vectors of a batch; without ``training`` nothing is created or counted."""
        ...

    def grad_square_sum(self, batch: Batch, looked_up: LookedUp) -> float:
        """Return the sum of squares of the gradients of all rows of the step."""
        ...

    def push(
        self, batch: Batch, looked_up: LookedUp, *, step: int, scale: float, progress: Progress
    ) -> None:
        """Update the rows of a batch by the gradients of its vectors times ``scale``.

        ``step`` counts the updates of this model from 0; learning rates depend on it.
        """
        ...

    def end_pass(self, end: PassEnd) -> None:
        """Finish a pass and evict rows by their rules."""
        ...

    def num_pending_pushes(self) -> int:
        """Return how many steps are not stored by servers yet."""
        ...

    def flush(self) -> None:
        """Return when all pushes are applied."""
        ...


class DenseUpdate(Protocol):
    """The dense network of one model, for the steps of one process."""

    @property
    def step(self) -> int:
        """Return how many updates were made."""
        ...

    def load_weights(self) -> None:
        """Make the weights current before a step."""
        ...

    def forward_backward(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """Compute outputs, loss and gradients."""
        ...

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the step, those of the whole group where it sums them."""
        ...

    def apply(self) -> float:
        """Update the weights, or hand the gradients over; returns the learning rate."""
        ...

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        """Enclose an evaluation: inside, the model has the weights of the group."""
        ...


class ClickLabels:
    """The labels that count clicks, where a table has rules about them."""

    def __init__(self, model: Model) -> None:
        tables = [t for t in model.embedding_collection().tables.values() if t.counts_clicks]
        named = {table.click_label for table in tables if table.click_label is not None}
        if len(named) > 1:
            raise ValueError(f"clicks are counted by one label, got {', '.join(sorted(named))}")
        known = [task.label for task in model.tasks]
        if not named <= set(known):
            raise ValueError(
                f"clicks are counted by a label of the model ({', '.join(known)}), got "
                f"{', '.join(named)}"
            )
        self._label = next(iter(named), known[0] if tables else None)

    def __call__(self, batch: Batch) -> Tensor | None:
        """Return labels_B; None where nothing counts clicks."""
        return None if self._label is None else batch.label(self._label)


def evict_rows(stores: Mapping[str, NativeStore], end: PassEnd) -> None:
    """Evict rows that this process holds, by the rules of their tables."""
    for store in stores.values():
        store.evict(now=end.now, ends_day=end.ends_day, max_unseen_days=end.max_unseen_days)
