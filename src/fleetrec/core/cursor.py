"""Where in the data a run stands."""

import dataclasses
from typing import Any, Self


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The place just behind a batch: everything before it was read, nothing after it.

    ``file`` counts in the order of this epoch's file list; ``offset`` counts bytes of the
    (decompressed) file.
    """

    file: int = 0
    offset: int = 0
    line: int = 0
    samples: int = 0

    def to_dict(self) -> dict[str, int]:
        """Return the cursor as plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild a cursor from ``to_dict``."""
        return cls(**data)
