"""What a table is, before anybody holds its rows."""

import dataclasses
import re
from typing import Literal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """How a new row looks: a pure function of (seed, table, id), whoever meets the id first."""

    kind: Literal["uniform", "normal"] = "uniform"
    scale: float = 0.01


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """A table of rows of width ``dim``.

    With ``num_rows`` the ids lie in [0, num_rows); without it any 64-bit id has a row of its own
    from the first time it is trained on.
    """

    name: str
    dim: int
    num_rows: int | None = None
    initializer: Initializer = Initializer()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ValueError(f"a table name is letters, digits and . _ -, got {self.name!r}")
        if self.dim < 1:
            raise ValueError(f"table {self.name}: dim must be at least 1, got {self.dim}")
        if self.num_rows is not None and self.num_rows < 1:
            raise ValueError(f"table {self.name}: num_rows must be at least 1, got {self.num_rows}")
