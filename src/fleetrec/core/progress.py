"""The progress of a run: pass, phase, batch and step."""

import dataclasses
import json
from typing import Any, Self

from fleetrec.core.cursor import Cursor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What comes next: batch ``batch`` of phase ``phase`` in pass ``pass_index``.

    ``step`` counts the steps of the whole run. ``cursor`` is the position in the data; None at the
    beginning of a phase.
    """

    pass_index: int = 0
    phase: int = 0
    batch: int = 0
    step: int = 0
    cursor: Cursor | None = None

    def after_batch(self, cursor: Cursor) -> Self:
        """Return the progress after the batch that ends at ``cursor``."""
        return dataclasses.replace(self, batch=self.batch + 1, step=self.step + 1, cursor=cursor)

    def next_phase(self) -> Self:
        """Return the beginning of the next phase of this pass."""
        return dataclasses.replace(self, phase=self.phase + 1, batch=0, cursor=None)

    def pass_start(self) -> Self:
        """Return the beginning of this pass."""
        return dataclasses.replace(self, phase=0, batch=0, cursor=None)

    def next_pass(self) -> Self:
        """Return the beginning of the next pass."""
        return dataclasses.replace(
            self, pass_index=self.pass_index + 1, phase=0, batch=0, cursor=None
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the progress as plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild a progress from ``to_dict``; ``epoch`` is the older name of ``pass_index``."""
        fields = {"pass_index" if key == "epoch" else key: value for key, value in data.items()}
        cursor = fields.pop("cursor")
        return cls(**fields, cursor=None if cursor is None else Cursor.from_dict(cursor))

    def to_bytes(self) -> bytes:
        """Return the progress as JSON."""
        return json.dumps(self.to_dict()).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Rebuild a progress from ``to_bytes``."""
        return cls.from_dict(json.loads(content))
