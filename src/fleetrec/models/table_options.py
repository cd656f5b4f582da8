"""Hyper-parameters that models with tables share."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fleetrec._native import optimizer_schema
from fleetrec.config.options import Options, lower
from fleetrec.embedding.table import (
    Admission,
    Eviction,
    Initializer,
    RowOptimizer,
    TableConfig,
    TableOptimizer,
)

RowOptimizerName = Literal[
    "sgd", "adagrad", "rowwise_adagrad", "adam", "adamw", "ftrl", "rmsprop", "momentum"
]
SHARES = ("alpha", "beta1", "beta2", "momentum")  # of what was before, in a running mean
Finite = Annotated[float, Field(allow_inf_nan=False)]

# Impressions and clicks of an id without a row are counted up to here: 16 bits each.
MAX_COUNT = 65535


class AdmissionOptions(Options):
    """Which ids get a row: ``{kind: count, threshold: 3}`` at the third impression."""

    kind: Literal["always", "count", "probability", "score"] = "always"
    threshold: float = Field(default=1.0, gt=0)
    show_weight: float = 0.1
    click_weight: float = 1.0

    @model_validator(mode="after")
    def check_threshold_is_reached(self) -> Self:
        """Reject a rule that never admits an id, or a probability above 1."""
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

    def build(self) -> Admission:
        """Return the rule for a table."""
        return Admission(**self.model_dump())


class EvictionOptions(Options):
    """Which rows are evicted after a pass: ``{max_unseen_days: 3}`` those unseen for 3 days."""

    max_unseen_days: int | None = Field(default=None, gt=0)
    min_score: float | None = None
    decay: float = Field(default=1.0, gt=0, le=1)
    show_weight: float = 0.1
    click_weight: float = 1.0
    max_rows: int | None = Field(default=None, gt=0)

    def build(self) -> Eviction:
        """Return the rules for a table."""
        return Eviction(**self.model_dump())


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
        if self.weight_bounds is not None and self.weight_bounds[0] >= self.weight_bounds[1]:
            raise ValueError("weight_bounds: expected [min, max] with min < max")
        return self

    def build(self) -> TableOptimizer:
        """Return the optimizer for a table."""
        guards = {"l2": self.l2, "clip_value": self.clip_value, "clip_norm": self.clip_norm}
        if self.weight_bounds is not None:
            guards["min_weight"], guards["max_weight"] = self.weight_bounds
        rule = RowOptimizer(
            name=self.optimizer_class,
            hyperparameters=dict(self.settings),
            guards={name: value for name, value in guards.items() if value},
        )
        return TableOptimizer(rule=rule, lr=self.learning_rate)


class GrowthOptions(Options):
    """How the tables of a model handle ids, and how they grow."""

    distributed_embedding: bool = Field(
        default=False, description="let the table grow with any 64-bit id"
    )
    hash_ids: bool = Field(
        default=False, description="map ids beyond the size of a table to its rows by a hash"
    )
    is_sparse: Literal[True] = Field(
        default=True, description="only rows of the batch have gradients; always true"
    )
    admission: AdmissionOptions = Field(
        default=AdmissionOptions(), description="which ids get a row in a growing table"
    )
    eviction: EvictionOptions = Field(
        default=EvictionOptions(), description="which rows of a growing table are evicted"
    )

    sparse_optimizer: SparseOptimizerOptions | None = Field(
        default=None, description="optimizer of rows, if it is not that of the network"
    )

    def table(self, name: str, dim: int, initializer: Initializer, *, num_rows: int) -> TableConfig:
        """Return a table by these options."""
        if self.hash_ids and self.distributed_embedding:
            raise ValueError(
                "hash_ids and distributed_embedding exclude each other; set one of them"
            )
        return TableConfig(
            name=name,
            dim=dim,
            num_rows=None if self.distributed_embedding else num_rows,
            out_of_range="hash" if self.hash_ids else "error",
            initializer=initializer,
            admission=self.admission.build(),
            eviction=self.eviction.build(),
            own_optimizer=self.sparse_optimizer.build() if self.sparse_optimizer else None,
        )


class TableOptions(GrowthOptions):
    """How large the tables of a model are, and how they grow."""

    sparse_feature_number: int = Field(default=1000001, gt=0, description="ids in the table")

    def table(
        self, name: str, dim: int, initializer: Initializer, *, num_rows: int | None = None
    ) -> TableConfig:
        """Return a table by these options; ``num_rows`` is for a table of other size."""
        return super().table(
            name, dim, initializer, num_rows=num_rows or self.sparse_feature_number
        )
