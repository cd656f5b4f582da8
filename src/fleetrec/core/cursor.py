"""Where in the data a run stands."""

import dataclasses
from typing import Any, Self


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The place just behind a batch: everything before it was read, nothing after it.

    ``file`` counts in the order of this epoch's files, ``row`` the rows of that file (or of a
    worker's part of it), and ``offset`` is the same place as its format counts: bytes of text, rows
    of a table. ``skip`` is the number of samples behind that place that were delivered already,
    where samples are shuffled or left out. Where several readers take turns, each has a cursor of
    its own in ``readers`` and ``turn`` says whose batch comes next.
    """

    file: int = 0
    offset: int = 0
    row: int = 0
    samples: int = 0
    skip: int = 0
    readers: tuple["Cursor", ...] = ()
    turn: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the cursor as plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild a cursor from ``to_dict``."""
        return cls(**{**data, "readers": tuple(map(cls.from_dict, data["readers"]))})
