"""Hyper-parameters that models share, about their tables."""

from typing import Literal

from pydantic import Field

from fleetrec.config.options import Options
from fleetrec.embedding.table import Admission, Eviction


class AdmissionOptions(Options):
    """Which ids get a row: ``{kind: count, threshold: 3}`` from the third sight on."""

    kind: Literal["always", "count", "probability", "score"] = "always"
    threshold: float = Field(default=1.0, gt=0, lt=65536)
    show_weight: float = 0.1
    click_weight: float = 1.0

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


def out_of_range(*, hash_ids: bool, grows: bool) -> Literal["error", "hash"]:
    """Return what a table does with ids beyond its rows; one that grows has no such ids."""
    if hash_ids and grows:
        raise ValueError("hash_ids and distributed_embedding exclude each other; set one of them")
    return "hash" if hash_ids else "error"
