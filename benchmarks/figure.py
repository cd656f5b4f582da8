"""What a benchmark finds out."""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing measured: its speed, and how that compares with another, round by round."""

    name: str
    unit: str
    values: Sequence[float]
    ratios: Sequence[float] = ()
    target: float | None = None

    @property
    def value(self) -> float:
        """Return the median over the rounds."""
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """Return the median of the ratios; None if it is compared with nothing."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def is_met(self) -> bool | None:
        """Tell whether the ratio reaches its target; None if there is nothing to reach."""
        if self.ratio is None or self.target is None:
            return None
        return self.ratio >= self.target

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain data."""
        medians = {"value": self.value, "ratio": self.ratio, "is_met": self.is_met}
        return {**dataclasses.asdict(self), **medians}


def ratios(speeds: Sequence[float], bound: Sequence[float]) -> list[float]:
    """Divide round by round."""
    return [a / b for a, b in zip(speeds, bound, strict=True)]
