"""The contract of a step: what turns a batch into an update of a model."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.progress import Progress
from fleetrec.tasks.task import Outputs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Outputs and loss of one batch; ``lr`` is None if nothing was trained."""

    outputs: Outputs
    loss: Tensor
    lr: float | None = None


OnResult = Callable[[StepResult], None]


def ignore_result(_: StepResult) -> None:
    """Do nothing with a result."""


class Stepper(Protocol):
    """Makes the steps of one model. Every process of a group has one."""

    @property
    def prefetches(self) -> bool:
        """Return whether it pays to call ``prefetch``."""
        ...

    def prefetch(self, batch: Batch) -> None:
        """Prepare the batch that follows the next call of ``train``.

        The batch may never arrive; prefetching has no lasting effect.
        """
        ...

    def train(
        self, batch: Batch, *, progress: Progress, on_result: OnResult = ignore_result
    ) -> StepResult:
        """Train on a batch; returns the outputs from before the update.

        ``progress`` is that after this step. It is stored with the step where steps outlive the
        process, and seeds the random numbers of the step. ``on_result`` is called before any other
        process can see the step: if it raises, the step is not made, and what it writes is there
        whenever the step is.
        """
        ...

    def evaluating(self) -> contextlib.AbstractContextManager[None]:
        """Enclose calls of ``evaluate``; training goes on afterwards as if nothing had happened.

        Every process of a group that evaluates together enters it.
        """
        ...

    def evaluate(self, batch: Batch) -> StepResult:
        """Return outputs and loss with the weights of the group; creates no rows."""
        ...

    def num_pending_pushes(self) -> int:
        """Return how many steps of this process are not stored by servers yet."""
        ...

    def end_pass(self, *, pass_index: int, now: int) -> None:
        """Finish a pass: wait for the group, then evict rows by their rules at event time ``now``.

        Every process of the group calls it.
        """
        ...

    def flush(self) -> None:
        """Return when all steps so far are applied to the state of the group."""
        ...
