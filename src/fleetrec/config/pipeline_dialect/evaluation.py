"""``eval_config``: metrics, and the number of samples."""

from typing import Literal

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message, idle

Reduction = Literal["mean", "mean_by_sample_num", "mean_by_positive_num"]


class Auc(Message):
    """Area under the curve."""

    num_thresholds: int = Field(default=200, gt=1)


class Gauc(Message):
    """Area under the curve of each user, averaged."""

    uid_field: str
    reduction: Reduction = "mean"


class SessionAuc(Message):
    """Area under the curve of each session, averaged."""

    session_id_field: str
    reduction: Reduction = "mean"


class AtTopK(Message):
    """A metric of the ``topk`` highest scores."""

    topk: int = Field(default=5, gt=0)


class Plain(Message):
    """A metric without parameters."""


class Metric(Message):
    """Metrics; EasyRec takes one in each message, here all of them count."""

    auc: Auc | None = None
    gauc: Gauc | None = None
    session_auc: SessionAuc | None = None
    recall_at_topk: AtTopK | None = None
    accuracy: Plain | None = None
    mean_absolute_error: Plain | None = None
    mean_squared_error: Plain | None = None
    root_mean_squared_error: Plain | None = None
    max_f1: Plain | None = None
    precision_at_topk: AtTopK | None = None
    precision: Plain | None = None
    recall: Plain | None = None
    avg_precision_at_topk: AtTopK | None = None


class EvalConfig(Message):
    """How a model is evaluated."""

    num_examples: int = Field(default=0, ge=0)
    eval_interval_secs: int = idle(default=300)
    max_evals: int = idle(default=0)
    save_graph: bool = idle(default=False)
    metrics_set: tuple[Metric, ...] = ()
    eval_online: bool = False
