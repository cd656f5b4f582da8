"""Loss and metrics of one pass over the data, for every task of a model."""

import math
from collections.abc import Mapping, Sequence

import torch
from safetensors.torch import load, save
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import ModelError
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.task import Outputs, Task


class _Tally:
    """The metrics of all tasks and the mean loss, over some stretch of data."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.metrics: list[Metric] = [task.new_metric() for task in tasks]
        self.loss = torch.zeros(2, dtype=torch.float64)  # sum over samples, samples

    def merge(self, other: "_Tally") -> None:
        for mine, theirs in zip(self.metrics, other.metrics, strict=True):
            mine.merge(theirs)
        self.loss += other.loss

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()
        self.loss.zero_()

    def counters(self) -> dict[str, Tensor]:
        named = {
            f"{index}.{name}": counter
            for index, metric in enumerate(self.metrics)
            for name, counter in metric.counters().items()
        }
        return {"loss": self.loss, **named}

    def load(self, counters: Mapping[str, Tensor]) -> None:
        self.loss.copy_(counters["loss"])
        for index, metric in enumerate(self.metrics):
            metric.load(_below(f"{index}.", counters))


class Scoreboard:
    """Counts every sample once, into the current interval; intervals add up to the pass."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        self._pass = _Tally(tasks)
        self._interval = _Tally(tasks)

    def count(self, outputs: Outputs, batch: Batch, loss: Tensor) -> None:
        """Add a batch."""
        mean_loss = float(loss)
        if not math.isfinite(mean_loss):
            raise ModelError(
                f"the loss is {mean_loss} after {batch.cursor.samples} samples of this epoch: "
                "lower learning_rate, or look for extreme values in the data"
            )
        for task, metric in zip(self._tasks, self._interval.metrics, strict=True):
            task.count(metric, outputs, batch)
        self._interval.loss[0] += mean_loss * batch.num_samples
        self._interval.loss[1] += batch.num_samples

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
        self._pass.load(_below("pass.", state))
        self._interval.load(_below("interval.", state))

    def to_bytes(self) -> bytes:
        """Return all counters, for other workers."""
        return save(self.state())

    def load_sum(self, parts: Sequence[bytes]) -> None:
        """Take up the sum of what several workers have counted."""
        if len(parts) == 1:
            return
        states = [load(part) for part in parts]
        self.load_state({name: _sum([state[name] for state in states]) for name in states[0]})

    def _close(self) -> None:
        self._pass.merge(self._interval)
        self._interval.reset()

    def _headline(self, tally: _Tally) -> dict[str, float]:
        return {
            _name(task, key): value
            for task, metric in zip(self._tasks, tally.metrics, strict=True)
            for key, value in metric.headline().items()
        }


def _below(prefix: str, counters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in counters.items() if k.startswith(prefix)}


def _name(task: Task, figure: str) -> str:
    return f"{figure}_{task.name}" if task.name else figure


def _sum(counters: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(counters)).sum(dim=0)


def _mean(loss: Tensor) -> float:
    return float(loss[0] / loss[1])
