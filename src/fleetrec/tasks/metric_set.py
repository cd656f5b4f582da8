"""Several metrics of one task as one."""

from collections.abc import Mapping, Sequence
from typing import Self

from torch import Tensor

from fleetrec.tasks.metric import Metric


class MetricSet(Metric):
    """Several metrics as one; their values must have different names."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = tuple(metrics)

    def counters(self) -> dict[str, Tensor]:
        """Return the counters of all."""
        return {
            f"{index}.{name}": counter
            for index, metric in enumerate(self.metrics)
            for name, counter in metric.counters().items()
        }

    def load(self, counters: Mapping[str, Tensor]) -> None:
        """Load the counters of all metrics."""
        for index, metric in enumerate(self.metrics):
            prefix = f"{index}."
            metric.load(
                {k.removeprefix(prefix): v for k, v in counters.items() if k.startswith(prefix)}
            )

    def merge(self, other: Self) -> None:
        """Add the counters of another set of the same metrics."""
        for mine, theirs in zip(self.metrics, other.metrics, strict=True):
            mine.merge(theirs)

    def reset(self) -> None:
        """Reset all metrics."""
        for metric in self.metrics:
            metric.reset()

    def headline(self) -> dict[str, float]:
        """Return the headlines of all."""
        return {k: v for metric in self.metrics for k, v in metric.headline().items()}

    def compute(self) -> dict[str, float]:
        """Return the values of all metrics."""
        return {k: v for metric in self.metrics for k, v in metric.compute().items()}
