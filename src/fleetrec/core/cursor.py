"""The position of a run in the data."""

import dataclasses
from typing import Any, Self


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The position right after a batch: everything before it was read, nothing after it.

    ``file`` is an index in this epoch's order of files, ``row`` an index in that file (or in a
    worker's slice of it), and ``offset`` is the same position in the unit of the format: bytes of
    text, rows of a table. ``skip`` is the number of samples after that position that were already
    delivered, if samples are shuffled or filtered. If several readers take turns, each has a cursor
    in ``readers``, and ``turn`` is the reader of the next batch.
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
