"""Options of models over groups of features, for both dialects."""

from typing import Literal

from pydantic import Field

from fleetrec.config.losses import DistillationOptions, LossKind, LossOptions
from fleetrec.config.options import Options
from fleetrec.config.pipeline_dialect.backbone import Backbone

ActivationName = Literal[
    "relu",
    "sigmoid",
    "tanh",
    "prelu",
    "dice",
    "gelu",
    "leaky_relu",
    "elu",
    "selu",
    "swish",
    "linear",
]
MetricName = Literal[
    "auc",
    "gauc",
    "session_auc",
    "recall_at_topk",
    "accuracy",
    "mean_absolute_error",
    "mean_squared_error",
    "root_mean_squared_error",
    "max_f1",
    "precision",
    "recall",
    "precision_at_topk",
    "avg_precision_at_topk",
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


class SequenceOptions(Options):
    """How a feature is a sequence, and how it becomes one vector where a vector is needed.

    The ids of a step are summed up or averaged if the dense feature ``counts`` says how many each
    step has. A sequence of numbers is the dense feature of the same name: the number of steps, then
    ``step_width`` numbers for each of ``max_steps``; each number is times a learned vector of width
    ``dim``, unless that is 0. Without a ``combiner`` there is no single vector.
    """

    combiner: Literal["attention", "text_cnn"] | None = None
    filter_sizes: tuple[int, ...] = ()
    num_filters: tuple[int, ...] = ()
    counts: str = ""
    max_steps: int = Field(default=0, ge=0)
    step_width: int = Field(default=0, ge=0)
    dim: int = Field(default=0, ge=0)


class GroupFeature(Options):
    """A feature of a group: numbers of some width, ids that are looked up, or a sequence."""

    name: str
    width: int = Field(default=0, ge=0)
    embedded: EmbeddedOptions | None = None
    sequence: SequenceOptions | None = None


class LayersOptions(Options):
    """Fully connected layers, without an output layer."""

    hidden: tuple[int, ...] = ()
    dropout: tuple[float, ...] = ()
    activation: ActivationName = "relu"
    batch_norm: bool = True


DIN_LAYERS = LayersOptions(hidden=(128, 64, 32, 1))


class AttentionOptions(Options):
    """Attention of keys over histories, whose result is part of a group.

    The vectors of all ``history`` sequences are concatenated step by step, and those of ``aux``
    are weighted like them. Keys that the group does not have are in ``own_keys``. A key of another
    width than the history is transformed with ``transforms_key``, by a layer with batch
    normalisation and activation if ``transforms_deeply``. The last layer of ``layers`` is the
    score.
    """

    name: str
    keys: tuple[str, ...] = Field(min_length=1)
    own_keys: tuple[GroupFeature, ...] = ()
    history: tuple[GroupFeature, ...] = Field(min_length=1)
    aux: tuple[GroupFeature, ...] = ()
    layers: LayersOptions = DIN_LAYERS
    needs_key: bool = True
    transforms_key: bool = False
    transforms_deeply: bool = False


class GroupOptions(Options):
    """Features that a model uses as one group, and attention over histories."""

    name: str
    is_wide: bool = False
    features: tuple[GroupFeature, ...] = ()
    attention: tuple[AttentionOptions, ...] = ()
    has_negatives: bool = False


class MetricOptions(Options):
    """One metric; ``feature`` holds the users or sessions that scores are compared within."""

    name: MetricName
    feature: str = ""
    reduction: Literal["mean", "mean_by_sample_num", "mean_by_positive_num"] = "mean"
    topk: int = Field(default=5, gt=0)


class VariationalDropoutOptions(Options):
    """Learned dropout of the features of every group."""

    penalty: float = Field(default=0.01, ge=0)
    by_value: bool = False


class GroupModelOptions(Options):
    """Options of all models over groups.

    ``losses`` are those of a model with one task. ``loss_weights`` says how several losses are
    added up: with their weights, with learned ones, or with random ones in every step. With
    ``has_negatives`` batches have sampled items, on a side of their own. Metrics that keep every
    sample are computed in training only if ``metrics_in_training``.
    """

    groups: tuple[GroupOptions, ...] = ()
    attention_groups: tuple[AttentionOptions, ...] = ()
    labels: tuple[str, ...] = ("label",)
    loss: LossKind = "classification"
    losses: tuple[LossOptions, ...] = ()
    loss_weights: Literal["fixed", "uncertainty", "random"] = "fixed"
    distillation: tuple[DistillationOptions, ...] = ()
    variational_dropout: VariationalDropoutOptions | None = None
    has_negatives: bool = False
    num_class: int = Field(default=1, gt=0)
    metrics: tuple[MetricOptions, ...] = ()
    metrics_in_training: bool = False
    embedding_regularization: float = Field(default=0.0, ge=0)
    backbone: Backbone | None = None
