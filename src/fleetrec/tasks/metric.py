"""The base class of metrics: counters that can be merged over batches, workers and passes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

from torch import Tensor


class Metric(ABC):
    """Counters, and the values computed from them.

    Merging the counters of two halves of the data gives the counters of the whole: over
    batches, over workers, over passes. Whole numbers are exact; sums of floats are kept in
    float64 and equal up to its rounding.
    """

    @abstractmethod
    def counters(self) -> dict[str, Tensor]:
        """Return the live counters; changing them changes the metric."""

    @abstractmethod
    def headline(self) -> dict[str, float]:
        """Return the values that are shown in every progress line; cheap."""

    @abstractmethod
    def compute(self) -> dict[str, float]:
        """Return all values by the name they are printed under; nan where undefined."""

    def merge(self, other: Self) -> None:
        """Add the counters of another metric of the same kind."""
        theirs = other.counters()
        for name, counter in self.counters().items():
            counter.add_(theirs[name])

    def load(self, counters: Mapping[str, Tensor]) -> None:
        """Load counters that ``counters`` returned."""
        for name, counter in self.counters().items():
            counter.copy_(counters[name])

    def reset(self) -> None:
        """Set all counters to zero."""
        for counter in self.counters().values():
            counter.zero_()
