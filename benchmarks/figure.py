"""What a benchmark finds out."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value; ``ratio`` is to what it was measured against in the same run."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    target: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Tell whether the ratio reaches its target; None if there is nothing to reach."""
        if self.ratio is None or self.target is None:
            return None
        return self.ratio >= self.target

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain data."""
        return {**dataclasses.asdict(self), "is_met": self.is_met}
