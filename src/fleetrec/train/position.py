"""Where in its epochs and phases a training run stands."""

import dataclasses
from typing import Any, Self

from fleetrec.core.cursor import Cursor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """What comes next: batch ``batch`` of phase number ``phase`` in epoch ``epoch``."""

    epoch: int = 0
    phase: int = 0
    batch: int = 0
    step: int = 0
    cursor: Cursor | None = None

    def after_batch(self, cursor: Cursor) -> Self:
        """Return the position behind the batch that ends at ``cursor``."""
        return dataclasses.replace(self, batch=self.batch + 1, step=self.step + 1, cursor=cursor)

    def next_phase(self) -> Self:
        """Return the beginning of the next phase of this epoch."""
        return dataclasses.replace(self, phase=self.phase + 1, batch=0, cursor=None)

    def begin_epoch(self) -> Self:
        """Return the beginning of this epoch, for one who has made no step of it."""
        return dataclasses.replace(self, phase=0, batch=0, cursor=None)

    def next_epoch(self) -> Self:
        """Return the beginning of the next epoch."""
        return dataclasses.replace(self, epoch=self.epoch + 1, phase=0, batch=0, cursor=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the position as plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild a position from ``to_dict``."""
        cursor = data["cursor"]
        return cls(**{**data, "cursor": None if cursor is None else Cursor.from_dict(cursor)})
