"""What a table is, before anybody holds its rows."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """How a new row looks: a pure function of (seed, table, id), whoever meets the id first."""

    kind: Literal["constant", "uniform", "normal", "truncated_normal"] = "uniform"
    scale: float = 0.01  # half the width of a uniform one, else the standard deviation
    center: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowOptimizer:
    """How rows move: a native optimizer, what differs from its defaults, and its guards.

    Guards are l2, clip_value, clip_norm, min_weight and max_weight.
    """

    name: str = "adam"
    hyperparameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    guards: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimizer:
    """What moves the rows of a table that do not move as the dense network does."""

    rule: RowOptimizer
    lr: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Which ids get a row: always, from ``threshold`` sights on, by chance, or by score.

    The score of an id is show_weight for every sight without a click, click_weight with one.
    """

    kind: Literal["always", "count", "probability", "score"] = "always"
    threshold: float = 1.0
    show_weight: float = 0.1
    click_weight: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Which rows are given up after a pass over the data; None switches a rule off.

    ``max_unseen_days`` counts event time. ``min_score`` is compared with the score of an id (as in
    Admission) after its shows and clicks have been multiplied by ``decay``. ``max_rows`` keeps
    those seen last.
    """

    max_unseen_days: int | None = None
    min_score: float | None = None
    decay: float = 1.0
    show_weight: float = 0.1
    click_weight: float = 1.0
    max_rows: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """A table of rows of width ``dim``.

    With ``num_rows`` the ids lie in [0, num_rows), and ``out_of_range`` says what becomes of
    others: an error, or a hash takes them to one of the rows. Without it any 64-bit id has a row
    of its own from the first time it is trained on. Without ``own_optimizer`` rows move as the
    dense network does; each ``optimizer_group`` may have its own optimizer.
    """

    name: str
    dim: int
    num_rows: int | None = None
    out_of_range: Literal["error", "hash"] = "error"
    initializer: Initializer = Initializer()
    admission: Admission = Admission()
    eviction: Eviction = Eviction()
    own_optimizer: TableOptimizer | None = None
    optimizer_group: int = 0

    def row_optimizer(self, name: str, settings: Mapping[str, float]) -> RowOptimizer:
        """Return what moves the rows, where this moves all that have nothing of their own."""
        if self.own_optimizer is not None:
            return self.own_optimizer.rule
        return RowOptimizer(name=name, hyperparameters=dict(settings))

    def row_rate(self, lr: float) -> float:
        """Return the learning rate of the rows, where this is that of all others."""
        return lr if self.own_optimizer is None else self.own_optimizer.lr

    @property
    def counts_clicks(self) -> bool:
        """Whether clicks decide about rows of this table."""
        return self.admission.kind == "score" or self.eviction.min_score is not None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ValueError(f"a table name is letters, digits and . _ -, got {self.name!r}")
        if self.dim < 1:
            raise ValueError(f"table {self.name}: dim must be at least 1, got {self.dim}")
        if self.num_rows is not None and self.num_rows < 1:
            raise ValueError(f"table {self.name}: num_rows must be at least 1, got {self.num_rows}")
        if self.num_rows is None and self.out_of_range == "hash":
            raise ValueError(f"table {self.name}: out_of_range 'hash' needs num_rows")
