"""Loss and metrics of one pass over the data, for every task of a model."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load, save
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import ModelError
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.task import Outputs, Task

MAX_DENSE = 1024  # longer counters hold mostly zeros, and are encoded by index and value
INDEX_SUFFIX = "@"  # behind the name of such a counter: where its values are

Array = npt.NDArray[Any]


class MetricCounters:
    """The counters of all tasks and the mean loss, over some part of the data."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        self.metrics: list[Metric] = [task.new_metric() for task in tasks]
        self.loss = torch.zeros(2, dtype=torch.float64)  # sum over samples, samples
        # Sums have a fixed size; lists, such as those of all samples, are empty at first.
        self._sizes = {name: counter.numel() for name, counter in self.counters().items()}

    def count(self, outputs: Outputs, batch: Batch, mean_loss: float) -> None:
        """Add a batch."""
        for task, metric in zip(self._tasks, self.metrics, strict=True):
            task.count(metric, outputs, batch)
        sums = self.loss.numpy()  # in every step: each operation of torch would take longer
        sums += (mean_loss * batch.num_samples, batch.num_samples)

    def merge(self, other: "MetricCounters") -> None:
        """Add the counters of another part of the data."""
        for mine, theirs in zip(self.metrics, other.metrics, strict=True):
            mine.merge(theirs)
        self.loss += other.loss

    def reset(self) -> None:
        """Set all counters to zero."""
        for metric in self.metrics:
            metric.reset()
        self.loss.zero_()

    def counters(self) -> dict[str, Tensor]:
        """Return the live counters."""
        named = {
            f"{index}.{name}": counter
            for index, metric in enumerate(self.metrics)
            for name, counter in metric.counters().items()
        }
        return {"loss": self.loss, **named}

    def load(self, counters: Mapping[str, Tensor]) -> None:
        """Set the counters to those that ``counters`` returned."""
        self.loss.copy_(counters["loss"])
        for index, metric in enumerate(self.metrics):
            metric.load(strip_prefix(f"{index}.", counters))

    def to_bytes(self) -> bytes:
        """Return the counters for another process or a file."""
        parts: dict[str, Array] = {}
        for name, counter in self.counters().items():
            flat: Array = counter.numpy().reshape(-1)
            if self._is_long(name):
                indices = np.flatnonzero(flat)
                parts[name] = flat[indices]
                parts[f"{name}{INDEX_SUFFIX}"] = indices.astype(np.uint32)
            else:
                parts[name] = counter.numpy().copy()
        return save(parts)

    def pop_bytes(self) -> bytes:
        """Return ``to_bytes`` and set all counters to zero.

        This happens in every step, so long counters are cleared only where they are not zero.
        """
        content = self.to_bytes()
        counters = self.counters()
        if any(counter.numel() != self._sizes[name] for name, counter in counters.items()):
            self.reset()  # some are lists
            return content
        for counter in counters.values():
            flat: Array = counter.numpy().reshape(-1)
            flat[np.flatnonzero(flat)] = 0
        return content

    def load_bytes(self, content: bytes) -> None:
        """Set the counters to those of ``to_bytes``."""
        parts = load(content)
        found = {
            name: torch.from_numpy(part) for name, part in parts.items() if INDEX_SUFFIX not in name
        }
        for name, counter in self.counters().items():
            if self._is_long(name):
                whole = np.zeros_like(counter.numpy())
                whole.reshape(-1)[parts[f"{name}{INDEX_SUFFIX}"]] = parts[name]
                found[name] = torch.from_numpy(whole)
        self.load(found)

    def _is_long(self, name: str) -> bool:
        return self._sizes[name] > MAX_DENSE


class PassMetrics:
    """Counts every sample of a pass once, by interval; intervals add up to the pass."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        self._pass = MetricCounters(tasks)
        self._interval = MetricCounters(tasks)
        self._step = MetricCounters(tasks)

    def count(self, outputs: Outputs, batch: Batch, loss: Tensor) -> None:
        """Count a batch; a loss that is not finite is a ModelError."""
        self._interval.count(outputs, batch, _finite(loss, batch))

    def count_to_bytes(self, outputs: Outputs, batch: Batch, loss: Tensor) -> bytes:
        """Count a batch, and return the counters of this batch alone."""
        self._step.count(outputs, batch, _finite(loss, batch))
        self._interval.merge(self._step)
        return self._step.pop_bytes()

    @property
    def has_samples(self) -> bool:
        """Return whether anything was counted in the pass so far."""
        return bool(self._pass.loss[1] + self._interval.loss[1] > 0)

    def add(self, parts: Sequence[bytes]) -> None:
        """Add counters of other steps or processes."""
        for part in parts:
            self._interval.merge(self._decoded(part))

    def merge_bytes(self, parts: Sequence[bytes]) -> bytes:
        """Return the sum of several counters, which are not counted here."""
        whole = MetricCounters(self._tasks)
        for part in parts:
            whole.merge(self._decoded(part))
        return whole.to_bytes()

    def end_interval(self) -> dict[str, float]:
        """Return the headline of the pass so far, and that of the interval as BATCH_...."""
        recent = {f"BATCH_{k}": v for k, v in self._headline(self._interval).items()}
        loss = _mean(self._interval.loss)
        self._close_interval()
        return {**self._headline(self._pass), **recent, "LOSS": loss}

    def values(self) -> dict[str, float]:
        """Return all metrics of the pass."""
        self._close_interval()
        found = {
            _name(task, key): value
            for task, metric in zip(self._tasks, self._pass.metrics, strict=True)
            for key, value in metric.compute().items()
        }
        return {**found, "LOSS": _mean(self._pass.loss)}

    def reset(self) -> None:
        """Begin a new pass."""
        self._pass.reset()
        self._interval.reset()

    def to_bytes(self) -> bytes:
        """Return the counters of the pass so far, for other processes."""
        whole = MetricCounters(self._tasks)
        whole.merge(self._pass)
        whole.merge(self._interval)
        return whole.to_bytes()

    def load_merged(self, parts: Sequence[bytes]) -> None:
        """Set the counters to the sum of what several processes have counted."""
        self.reset()
        self.add(parts)

    def state_bytes(self) -> tuple[bytes, bytes]:
        """Return the counters of the closed intervals and those of the open one."""
        return self._pass.to_bytes(), self._interval.to_bytes()

    def merged_state(
        self, parts: Sequence[tuple[bytes, bytes]], *, closed: Sequence[bytes] = ()
    ) -> dict[str, Tensor]:
        """Return the sum of several ``state_bytes`` as the tensors of a checkpoint.

        ``closed`` are further counters of the pass, which belong to no open interval.
        """
        merged: dict[str, Tensor] = {}
        for index, prefix in enumerate(("pass.", "interval.")):
            whole = MetricCounters(self._tasks)
            for content in (*(part[index] for part in parts), *(closed if index == 0 else ())):
                whole.merge(self._decoded(content))
            merged |= {f"{prefix}{name}": counter for name, counter in whole.counters().items()}
        return merged

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Set the counters to those of a checkpoint."""
        self._pass.load(strip_prefix("pass.", state))
        self._interval.load(strip_prefix("interval.", state))

    def _decoded(self, content: bytes) -> MetricCounters:
        counters = MetricCounters(self._tasks)
        counters.load_bytes(content)
        return counters

    def _close_interval(self) -> None:
        self._pass.merge(self._interval)
        self._interval.reset()

    def _headline(self, counters: MetricCounters) -> dict[str, float]:
        return {
            _name(task, key): value
            for task, metric in zip(self._tasks, counters.metrics, strict=True)
            for key, value in metric.headline().items()
        }


def strip_prefix(prefix: str, counters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the counters below ``prefix``, with the prefix removed."""
    return {k.removeprefix(prefix): v for k, v in counters.items() if k.startswith(prefix)}


def _finite(loss: Tensor, batch: Batch) -> float:
    mean_loss = float(loss)
    if not math.isfinite(mean_loss):
        raise ModelError(
            f"the loss is {mean_loss} after {batch.cursor.samples} samples of this epoch: "
            "lower learning_rate, or look for extreme values in the data"
        )
    return mean_loss


def _name(task: Task, metric: str) -> str:
    return f"{metric}_{task.name}" if task.name else metric


def _mean(loss: Tensor) -> float:
    return float(loss[0] / loss[1])
