"""The configuration of a table."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Initializer:
    """The first value of a row: a pure function of (seed, table, id)."""

    kind: Literal["constant", "uniform", "normal", "truncated_normal"] = "uniform"
    scale: float = 0.01  # half the width of a uniform one, else the standard deviation
    center: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowOptimizer:
    """A native optimizer, its hyper-parameters that differ from the defaults, and its guards.

    Guards are l2, clip_value, clip_norm, min_weight and max_weight.
    """

    name: str = "adam"
    hyperparameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    guards: Mapping[str, float] = dataclasses.field(default_factory=dict)


# Optimizers by what a gradient of zero does to a row whose state is not zero. Those that are in
# neither group also change rows that were never looked up.
MOVE_WITHOUT_GRADIENT = frozenset({"adam", "lazy_adam", "momentum", "rmsprop", "rmsprop_momentum"})
STAND_WITHOUT_GRADIENT = frozenset(
    {"sgd", "adagrad", "rowwise_adagrad", "ctr_adagrad", "ctr_std_adagrad"}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimizer:
    """The optimizer and learning rate of a table, if not those of the dense network."""

    rule: RowOptimizer
    lr: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """When an id gets a row: always, after ``threshold`` impressions, by chance, or by score.

    The score of an id is show_weight per impression without a click, click_weight per click. With
    ``ctr``, an impression gives the id a row with its score as the probability.
    """

    kind: Literal["always", "count", "probability", "score", "ctr"] = "always"
    threshold: float = 1.0
    show_weight: float = 0.1
    click_weight: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Which rows are removed; None switches a rule off.

    After a pass that ends a day: ``max_unseen_days`` counts event time, and ``min_score`` is
    compared with the score of an id (as in Admission) after its shows and clicks have been
    multiplied by ``decay``. After every pass: ``max_rows`` keeps the most recently seen rows.
    """

    max_unseen_days: int | None = None
    min_score: float | None = None
    decay: float = 1.0
    show_weight: float = 0.1
    click_weight: float = 1.0
    max_rows: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LongVector:
    """Rows have only their first weight until their score (as in Admission) reaches a threshold.

    The others are zeros and get no gradient. A row that has them keeps them.
    """

    threshold: float
    show_weight: float = 0.1
    click_weight: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """A table of rows of width ``dim``.

    With ``num_rows`` ids lie in [0, num_rows); an id ``out_of_range`` is an error, or is hashed to
    one of the rows. Without it, every 64-bit id gets its own row when it is first trained.
    Without ``own_optimizer`` rows are updated by the optimizer of the dense network; each
    ``optimizer_group`` may have its own optimizer. Clicks are counted by ``click_label``, or where
    a rule depends on them, by the label of the first task.

    ``lr_scale`` multiplies the learning rate.

    With ``is_dense`` a step updates all rows, as an optimizer of a dense matrix does: those without
    a gradient move by the moments of earlier steps. It needs ``num_rows`` and an optimizer without
    weight decay.
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
    long_vector: LongVector | None = None
    click_label: str | None = None
    is_dense: bool = False
    lr_scale: float = 1.0

    def row_optimizer(self, name: str, settings: Mapping[str, float]) -> RowOptimizer:
        """Return the optimizer of the rows; the arguments describe the default one."""
        rule = RowOptimizer(name=name, hyperparameters=dict(settings))
        if self.own_optimizer is not None:
            rule = self.own_optimizer.rule
        if self.is_dense:
            self._check_dense(rule)
        return rule

    def is_swept(self, rule: RowOptimizer) -> bool:
        """Return whether a step changes rows without a gradient."""
        return self.is_dense and rule.name in MOVE_WITHOUT_GRADIENT

    def row_rate(self, lr: float) -> float:
        """Return the learning rate of the rows; ``lr`` is the default."""
        return self.lr_scale * (lr if self.own_optimizer is None else self.own_optimizer.lr)

    @property
    def counts_clicks(self) -> bool:
        """Whether the rows of this table have clicks."""
        return (
            self.admission.kind in ("score", "ctr")
            or self.eviction.min_score is not None
            or self.long_vector is not None
            or self.click_label is not None
        )

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ValueError(f"a table name is letters, digits and . _ -, got {self.name!r}")
        if self.dim < 1:
            raise ValueError(f"table {self.name}: dim must be at least 1, got {self.dim}")
        if self.num_rows is not None and self.num_rows < 1:
            raise ValueError(f"table {self.name}: num_rows must be at least 1, got {self.num_rows}")
        if self.num_rows is None and self.out_of_range == "hash":
            raise ValueError(f"table {self.name}: out_of_range 'hash' needs num_rows")
        if self.is_dense and (self.num_rows is None or self.long_vector is not None):
            raise ValueError(
                f"table {self.name}: a dense update is for tables of fixed size with whole rows; "
                "set is_sparse: True"
            )
        if self.long_vector is not None:
            self._check_long_vector(self.long_vector)

    def _check_dense(self, rule: RowOptimizer) -> None:
        has_l2 = bool(rule.guards.get("l2"))
        if rule.name not in {*MOVE_WITHOUT_GRADIENT, *STAND_WITHOUT_GRADIENT} or has_l2:
            what = "l2 of rows" if has_l2 else f"optimizer {rule.name}"
            raise ValueError(
                f"table {self.name}: {what} has no dense update, which would also change rows that "
                "were never looked up; set is_sparse: True, or choose sgd, adagrad, adam, "
                "lazy_adam, momentum, rmsprop or rmsprop_momentum"
            )

    def _check_long_vector(self, rule: LongVector) -> None:
        if rule.threshold <= 0:
            raise ValueError(
                f"table {self.name}: the threshold of long vectors must be above 0, got "
                f"{rule.threshold:g}"
            )
        guards = {} if self.own_optimizer is None else self.own_optimizer.rule.guards
        if guards.get("min_weight", 0) > 0 or guards.get("max_weight", 0) < 0:
            raise ValueError(
                f"table {self.name}: rows without a long vector have zeros, which lie outside of "
                "the bounds of weights"
            )
