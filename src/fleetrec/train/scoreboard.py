"""Loss and metrics of one pass over the data, for every task of a model."""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import ModelError
from fleetrec.tasks.task import Outputs, Task
from fleetrec.train.tally import Tally, below


class Scoreboard:
    """Counts every sample once, into the current interval; intervals add up to the pass."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        self._pass = Tally(tasks)
        self._interval = Tally(tasks)
        self._scratch = Tally(tasks)

    def count(self, outputs: Outputs, batch: Batch, loss: Tensor) -> None:
        """Add a batch."""
        mean_loss = float(loss)
        if not math.isfinite(mean_loss):
            raise ModelError(
                f"the loss is {mean_loss} after {batch.cursor.samples} samples of this epoch: "
                "lower learning_rate, or look for extreme values in the data"
            )
        self._interval.count(outputs, batch, mean_loss)

    def tally(self, outputs: Outputs, batch: Batch, loss: Tensor) -> bytes:
        """Return what a batch counts, without counting it."""
        self._scratch.count(outputs, batch, float(loss))
        return self._scratch.take()

    def add(self, tallied: Sequence[bytes]) -> None:
        """Count what was tallied before, maybe by another process."""
        for one in tallied:
            self._interval.merge(self._read(one))

    def merge_tallied(self, tallied: Sequence[bytes]) -> bytes:
        """Put several into one, without counting them."""
        whole = Tally(self._tasks)
        for one in tallied:
            whole.merge(self._read(one))
        return whole.take()

    def end_interval(self) -> dict[str, float]:
        """Return the headline of the pass so far, and that of the interval as BATCH_...."""
        recent = {f"BATCH_{k}": v for k, v in self._headline(self._interval).items()}
        loss = _mean(self._interval.loss)
        self._close()
        return {**self._headline(self._pass), **recent, "LOSS": loss}

    def figures(self) -> dict[str, float]:
        """Return all figures of the pass."""
        self._close()
        found = {
            _name(task, key): value
            for task, metric in zip(self._tasks, self._pass.metrics, strict=True)
            for key, value in metric.figures().items()
        }
        return {**found, "LOSS": _mean(self._pass.loss)}

    def reset(self) -> None:
        """Begin a new pass."""
        self._pass.reset()
        self._interval.reset()

    def state(self) -> dict[str, Tensor]:
        """Return all counters."""
        return {
            **{f"pass.{name}": value for name, value in self._pass.counters().items()},
            **{f"interval.{name}": value for name, value in self._interval.counters().items()},
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take up the counters of ``state``."""
        self._pass.load(below("pass.", state))
        self._interval.load(below("interval.", state))

    def to_bytes(self) -> bytes:
        """Return all that was counted, for other workers."""
        whole = Tally(self._tasks)
        whole.merge(self._pass)
        whole.merge(self._interval)
        return whole.take()

    def load_sum(self, parts: Sequence[bytes]) -> None:
        """Take up the sum of what several workers have counted."""
        if len(parts) == 1:
            return
        self.reset()
        self.add(parts)

    def _read(self, tallied: bytes) -> Tally:
        tally = Tally(self._tasks)
        tally.load_bytes(tallied)
        return tally

    def _close(self) -> None:
        self._pass.merge(self._interval)
        self._interval.reset()

    def _headline(self, tally: Tally) -> dict[str, float]:
        return {
            _name(task, key): value
            for task, metric in zip(self._tasks, tally.metrics, strict=True)
            for key, value in metric.headline().items()
        }


def _name(task: Task, figure: str) -> str:
    return f"{figure}_{task.name}" if task.name else figure


def _mean(loss: Tensor) -> float:
    return float(loss[0] / loss[1])
