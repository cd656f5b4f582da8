"""Options of models over groups of features, for both dialects."""

from typing import Literal

from pydantic import Field

from fleetrec.config.options import Options

LossName = Literal["classification", "l2", "softmax"]
MetricName = Literal[
    "auc",
    "gauc",
    "session_auc",
    "recall_at_topk",
    "accuracy",
    "mean_absolute_error",
    "mean_squared_error",
    "root_mean_squared_error",
]


class InitialRows(Options):
    """The distribution of first rows."""

    kind: Literal["constant", "normal", "truncated_normal"] = "truncated_normal"
    center: float = 0.0
    scale: float = Field(default=0.0, ge=0)


class EmbeddedOptions(Options):
    """The table of a feature.

    Without ``initial``, rows are drawn from N(0, 1/dim), truncated at two sigma. ``num_rows`` is
    None for a growing table, whose ids get a row after ``min_count`` impressions. The model sets
    the width of ``is_wide`` tables.
    """

    table: str
    dim: int = Field(default=0, ge=0)
    num_rows: int | None = Field(default=None, gt=0)
    combiner: Literal["sum", "mean", "sqrtn"] = "sum"
    initial: InitialRows | None = None
    min_count: int = Field(default=0, ge=0)


class GroupFeature(Options):
    """A feature of a group: numbers of some width, or ids that are looked up.

    The rows of an ``is_sequence`` feature are combined by attention instead of being pooled.
    """

    name: str
    width: int = Field(default=0, ge=0)
    embedded: EmbeddedOptions | None = None
    is_sequence: bool = False


class GroupOptions(Options):
    """Features that a model uses as one group."""

    name: str
    is_wide: bool = False
    features: tuple[GroupFeature, ...] = ()


class MetricOptions(Options):
    """One metric; ``feature`` holds the users or sessions that scores are compared within."""

    name: MetricName
    feature: str = ""
    reduction: Literal["mean", "mean_by_sample_num", "mean_by_positive_num"] = "mean"
    topk: int = Field(default=5, gt=0)


class GroupModelOptions(Options):
    """Options of all models over groups."""

    groups: tuple[GroupOptions, ...] = ()
    labels: tuple[str, ...] = ("label",)
    loss: LossName = "classification"
    num_class: int = Field(default=1, gt=0)
    metrics: tuple[MetricOptions, ...] = ()
    embedding_regularization: float = Field(default=0.0, ge=0)
