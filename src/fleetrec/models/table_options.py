"""Hyper-parameters that models with tables share."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fleetrec.config.options import Options
from fleetrec.embedding.table import Admission, Eviction, Initializer, TableConfig

# Sights, and clicks, of an id without a row are counted up to here: 16 bits each.
MAX_COUNT = 65535


class AdmissionOptions(Options):
    """Which ids get a row: ``{kind: count, threshold: 3}`` from the third sight on."""

    kind: Literal["always", "count", "probability", "score"] = "always"
    threshold: float = Field(default=1.0, gt=0)
    show_weight: float = 0.1
    click_weight: float = 1.0

    @model_validator(mode="after")
    def check_threshold_is_reached(self) -> Self:
        """Refuse a rule that never gives a row, or a chance above 1."""
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
    """Which rows are given up after a pass: ``{max_unseen_days: 3}`` those unseen for that long."""

    max_unseen_days: int | None = Field(default=None, gt=0)
    min_score: float | None = None
    decay: float = Field(default=1.0, gt=0, le=1)
    show_weight: float = 0.1
    click_weight: float = 1.0
    max_rows: int | None = Field(default=None, gt=0)

    def build(self) -> Eviction:
        """Return the rules for a table."""
        return Eviction(**self.model_dump())


class GrowthOptions(Options):
    """How the tables of a model take ids, and how they grow."""

    distributed_embedding: bool = Field(
        default=False, description="let the table grow with any 64-bit id"
    )
    hash_ids: bool = Field(
        default=False, description="let ids beyond the size of a table share rows, by a hash"
    )
    is_sparse: Literal[True] = Field(
        default=True, description="gradients concern the rows of the batch only; always so"
    )
    admission: AdmissionOptions = Field(
        default=AdmissionOptions(), description="which ids get a row in a growing table"
    )
    eviction: EvictionOptions = Field(
        default=EvictionOptions(), description="which rows a growing table gives up"
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
