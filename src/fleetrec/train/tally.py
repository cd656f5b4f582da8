"""What was counted over some stretch of data, as it goes to other processes and into files."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load, save
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.task import Outputs, Task

MOST_DENSE = 1024  # numbers of a counter that is written as it is
PLACES = "@"  # stands behind the name of a longer one, for the places of its numbers

Array = npt.NDArray[Any]


class Tally:
    """The metrics of all tasks and the mean loss."""

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
        sums = self.loss.numpy()  # in every step: each of torch's operations would take longer
        sums += (mean_loss * batch.num_samples, batch.num_samples)

    def merge(self, other: "Tally") -> None:
        """Add what another has counted."""
        for mine, theirs in zip(self.metrics, other.metrics, strict=True):
            mine.merge(theirs)
        self.loss += other.loss

    def reset(self) -> None:
        """Forget everything."""
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
        """Take up counters."""
        self.loss.copy_(counters["loss"])
        for index, metric in enumerate(self.metrics):
            metric.load(below(f"{index}.", counters))

    def take(self) -> bytes:
        """Return the counters and forget them.

        This happens in every step, so long counters, which hold mostly zeros, are written and
        cleared only where they are not zero.
        """
        counters = self.counters()
        parts: dict[str, Array] = {}
        for name, counter in counters.items():
            flat: Array = counter.numpy().reshape(-1)
            if self._is_long(name):
                places = np.flatnonzero(flat)
                parts[name] = flat[places]
                parts[f"{name}{PLACES}"] = places.astype(np.uint32)
                flat[places] = 0
            else:
                parts[name] = counter.numpy().copy()
                flat[:] = 0
        if any(counter.numel() != self._sizes[name] for name, counter in counters.items()):
            self.reset()  # some are lists
        return save(parts)

    def load_bytes(self, content: bytes) -> None:
        """Take up what ``take`` returned."""
        parts = load(content)
        found = {name: torch.from_numpy(part) for name, part in parts.items() if PLACES not in name}
        for name, counter in self.counters().items():
            if self._is_long(name):
                whole = np.zeros_like(counter.numpy())
                whole.reshape(-1)[parts[f"{name}{PLACES}"]] = parts[name]
                found[name] = torch.from_numpy(whole)
        self.load(found)

    def _is_long(self, name: str) -> bool:
        return self._sizes[name] > MOST_DENSE


def below(prefix: str, counters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the counters whose names begin so, without that."""
    return {k.removeprefix(prefix): v for k, v in counters.items() if k.startswith(prefix)}
