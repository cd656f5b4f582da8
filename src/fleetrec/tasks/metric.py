"""What every metric is: sums that can be merged, so that it is exact however it was gathered."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

from torch import Tensor


class Metric(ABC):
    """A bundle of counters with the figures that follow from them.

    Merging the counters of two halves of the data gives the counters of the whole: over
    batches, over workers, over passes. Whole numbers are exact; sums of floats are kept in
    float64 and equal up to its rounding.
    """

    @abstractmethod
    def counters(self) -> dict[str, Tensor]:
        """Return the live counters; changing them changes the metric."""

    @abstractmethod
    def headline(self) -> dict[str, float]:
        """Return the figures worth a place in every progress line; cheap."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """Return all figures by the name they are printed under; nan where undefined."""

    def merge(self, other: Self) -> None:
        """Add what another metric of the same kind has counted."""
        theirs = other.counters()
        for name, counter in self.counters().items():
            counter.add_(theirs[name])

    def load(self, counters: Mapping[str, Tensor]) -> None:
        """Load counters that ``counters`` returned."""
        for name, counter in self.counters().items():
            counter.copy_(counters[name])

    def reset(self) -> None:
        """Forget everything."""
        for counter in self.counters().values():
            counter.zero_()
