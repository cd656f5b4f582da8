"""Options of tables: which ids get a row, which rows go, and how rows are updated."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fleetrec._native import optimizer_schema
from fleetrec.config.options import Options, lower
from fleetrec.config.serving import ServingOptions

RowOptimizerName = Literal[
    "sgd",
    "adagrad",
    "rowwise_adagrad",
    "ctr_adagrad",
    "ctr_std_adagrad",
    "adam",
    "adamw",
    "ftrl",
    "rmsprop",
    "momentum",
]
SHARES = ("alpha", "beta1", "beta2", "momentum")  # of what was before, in a running mean
Finite = Annotated[float, Field(allow_inf_nan=False)]

DEFAULT = "default"  # options of the tables that have none of their own

# Impressions and clicks of an id without a row are counted up to here: 16 bits each.
MAX_COUNT = 65535


class AdmissionOptions(Options):
    """Which ids get a row: ``{kind: count, threshold: 3}`` at the third impression."""

    kind: Literal["always", "count", "probability", "score", "ctr"] = "always"
    threshold: float = Field(default=1.0, gt=0)
    show_weight: float = 0.1
    click_weight: float = 1.0

    @model_validator(mode="after")
    def check_threshold_is_reached(self) -> Self:
        """Reject a rule that never admits an id, or a probability above 1."""
        if self.kind == "ctr":
            self._check_ctr()
            return self
        highest = {
            "always": self.threshold,
            "count": MAX_COUNT,
            "probability": 1,
            "score": MAX_COUNT * max(self.show_weight, self.click_weight),
        }[self.kind]
        if self.threshold > highest:
            raise ValueError(
                f"expected a threshold of at most {highest:g} for {self.kind}, got "
                f"{self.threshold:g}; shows and clicks are counted up to {MAX_COUNT}"
            )
        return self

    def _check_ctr(self) -> None:
        if "threshold" in self.model_fields_set and self.threshold != 1:
            raise ValueError("ctr has no threshold: the score of an impression is its probability")
        if max(self.show_weight, self.click_weight) <= 0:
            raise ValueError("ctr needs a show_weight or click_weight above 0")


class EvictionOptions(Options):
    """Which rows are evicted: ``{max_unseen_days: 3}`` those unseen for 3 days."""

    max_unseen_days: int | None = Field(default=None, gt=0)
    min_score: float | None = None
    decay: float = Field(default=1.0, gt=0, le=1)
    show_weight: float = 0.1
    click_weight: float = 1.0
    max_rows: int | None = Field(default=None, gt=0)


class SparseOptimizerOptions(Options):
    """The optimizer of table rows: ``{class: rowwise_adagrad, learning_rate: 0.05}``.

    ``settings`` are those of the class: eps, beta1, momentum and so on. The other options change
    the gradient of a row before the optimizer runs, or its weights afterwards.
    """

    optimizer_class: Annotated[RowOptimizerName, BeforeValidator(lower)] = Field(alias="class")
    learning_rate: Finite = Field(gt=0)
    settings: Mapping[str, Finite] = Field(default_factory=dict)
    l2: Finite = Field(default=0.0, ge=0)
    clip_value: Finite = Field(default=0.0, ge=0)
    clip_norm: Finite = Field(default=0.0, ge=0)
    weight_bounds: tuple[Finite, Finite] | None = None

    @model_validator(mode="after")
    def check_settings_are_known(self) -> Self:
        """Reject unknown or invalid settings of the class, and empty bounds."""
        known = optimizer_schema()[self.optimizer_class]
        unknown = sorted(set(self.settings) - set(known))
        if unknown:
            raise ValueError(
                f"settings: {self.optimizer_class} has no {', '.join(unknown)}; it has "
                f"{', '.join(known) or 'none'}"
            )
        for name, value in self.settings.items():
            if value < 0 or (name in SHARES and value >= 1):
                allowed = "from 0 to less than 1" if name in SHARES else "of at least 0"
                raise ValueError(f"settings: {name}: expected a number {allowed}, got {value:g}")
        if self.settings.get("initial_g2sum", 1) == 0:
            raise ValueError("settings: initial_g2sum: expected a number above 0, got 0")
        if self.weight_bounds is not None and self.weight_bounds[0] >= self.weight_bounds[1]:
            raise ValueError("weight_bounds: expected [min, max] with min < max")
        return self


class LongVectorOptions(Options):
    """Rows have only their first weight until their score reaches ``threshold``."""

    threshold: Finite = Field(gt=0)
    show_weight: Finite = 0.1
    click_weight: Finite = 1.0


class TableOverrides(Options):
    """What a job changes in a table of its model; None: as the model has it.

    ``initial_range`` is half the width of uniform initial weights. ``click_label`` is the label
    that counts clicks. A table whose rows do not have ``width`` weights is refused.
    """

    admission: AdmissionOptions | None = None
    eviction: EvictionOptions | None = None
    optimizer: SparseOptimizerOptions | None = None
    initial_range: Finite | None = Field(default=None, ge=0)
    long_vector: LongVectorOptions | None = None
    click_label: str | None = None
    width: int | None = None
    serving: ServingOptions | None = None
