"""Losses in ``model_config``, task towers and ``kd``."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field

from fleetrec.config.losses import (
    LOSS_KINDS,
    DistillationOptions,
    LossKind,
    LossOptions,
    Mixing,
    SampleSpaceOptions,
)
from fleetrec.config.pipeline_dialect.message import Message

GROUPED = "group:"  # before the columns within which samples are compared

LossType = Literal[
    "CLASSIFICATION",
    "L2_LOSS",
    "SIGMOID_L2_LOSS",
    "CROSS_ENTROPY_LOSS",
    "SOFTMAX_CROSS_ENTROPY",
    "PAIR_WISE_LOSS",
    "PAIRWISE_FOCAL_LOSS",
    "PAIRWISE_LOGISTIC_LOSS",
    "PAIRWISE_HINGE_LOSS",
    "F1_REWEIGHTED_LOSS",
    "BINARY_FOCAL_LOSS",
    "JRC_LOSS",
    "ORDER_CALIBRATE_LOSS",
    "BINARY_CROSS_ENTROPY_LOSS",
    "KL_DIVERGENCE_LOSS",
    "LISTWISE_RANK_LOSS",
    "LISTWISE_DISTILL_LOSS",
    "ZILN_LOSS",
    "CIRCLE_LOSS",
    "MULTI_SIMILARITY_LOSS",
    "SOFTMAX_CROSS_ENTROPY_WITH_NEGATIVE_MINING",
]
# Of the same order; how losses are called in figures: loss/loss/<name>.
KINDS: Mapping[str, LossKind] = dict(zip(get_args(LossType), LOSS_KINDS, strict=True))


class F1ReweightedLoss(Message):
    """F1 reweighting."""

    f1_beta_square: float = Field(default=1.0, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)


class SoftmaxNegativeMining(Message):
    """Softmax over sampled negatives of the batch."""

    num_negative_samples: int = Field(default=0, ge=0)
    margin: float = 0.0
    gamma: float = 1.0
    coefficient_of_support_vector: float = 1.0


class CircleLoss(Message):
    """Circle loss."""

    margin: float = 0.25
    gamma: float = 32.0


class MultiSimilarityLoss(Message):
    """Multi-similarity loss."""

    alpha: float = 2.0
    beta: float = 50.0
    lamb: float = 1.0
    eps: float = 0.1


class BinaryFocalLoss(Message):
    """Focal loss."""

    gamma: float = 2.0
    alpha: float | None = None
    ohem_ratio: float = Field(default=1.0, gt=0, le=1)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)


class PairwiseLoss(Message):
    """Log loss of pairs."""

    margin: float = 0.0
    session_name: str = ""
    temperature: float = Field(default=1.0, gt=0)


class PairwiseFocalLoss(Message):
    """Focal loss of pairs."""

    gamma: float = 2.0
    alpha: float | None = None
    session_name: str = ""
    hinge_margin: float | None = None
    ohem_ratio: float = Field(default=1.0, gt=0, le=1)
    temperature: float = Field(default=1.0, gt=0)
    margin: float = 0.0


class PairwiseLogisticLoss(Message):
    """Logistic loss of pairs."""

    temperature: float = Field(default=1.0, gt=0)
    session_name: str = ""
    hinge_margin: float | None = None
    ohem_ratio: float = Field(default=1.0, gt=0, le=1)
    use_label_margin: bool = False


class PairwiseHingeLoss(Message):
    """Hinge loss of pairs."""

    temperature: float = Field(default=1.0, gt=0)
    session_name: str = ""
    margin: float = 1.0
    ohem_ratio: float = Field(default=1.0, gt=0, le=1)
    label_is_logits: bool = True
    use_label_margin: bool = True
    use_exponent: bool = False


class JrcLoss(Message):
    """Ranking within sessions and calibration together."""

    session_name: str = ""
    alpha: float = Field(default=0.5, ge=0, le=1)
    same_label_loss: bool = True
    loss_weight_strategy: Mixing = "fixed"


class ListwiseRankLoss(Message):
    """Softmax over sessions."""

    temperature: float = Field(default=1.0, gt=0)
    session_name: str = ""
    label_is_logits: bool = False
    scale_logits: bool = False


class ListwiseDistillLoss(Message):
    """Order of a list that a soft label gives."""

    temperature: float = Field(default=1.0, gt=0)
    session_name: str = ""
    label_clip_max_value: float = Field(default=512.0, gt=0)
    scale_logits: bool = False


class ZilnLoss(Message):
    """Zero-inflated lognormal loss."""

    mu_regularization: float = Field(default=0.01, ge=0)
    sigma_regularization: float = Field(default=0.01, ge=0)
    max_sigma: float = Field(default=5.0, gt=0)
    max_log_clip_value: float = 20.0
    return_log_pred_value: bool = False
    classification_weight: float = 1.0
    regression_weight: float = 1.0


PARAMETERS = (
    "f1_reweighted_loss",
    "softmax_loss",
    "circle_loss",
    "multi_simi_loss",
    "binary_focal_loss",
    "pairwise_loss",
    "pairwise_focal_loss",
    "pairwise_logistic_loss",
    "jrc_loss",
    "pairwise_hinge_loss",
    "listwise_rank_loss",
    "listwise_distill_loss",
    "ziln_loss",
)
# Parameters whose names differ here.
NAMES = MappingProxyType(
    {
        "session_name": "session",
        "loss_weight_strategy": "mixing",
        "label_clip_max_value": "label_clip_max",
        "mu_regularization": "mu_penalty",
        "sigma_regularization": "sigma_penalty",
        "classification_weight": "class_weight",
        "num_negative_samples": "num_negatives",
        "coefficient_of_support_vector": "support_vector_weight",
    }
)


class Parameters(Message):
    """The parameters of one loss."""

    f1_reweighted_loss: F1ReweightedLoss | None = None
    softmax_loss: SoftmaxNegativeMining | None = None
    circle_loss: CircleLoss | None = None
    multi_simi_loss: MultiSimilarityLoss | None = None
    binary_focal_loss: BinaryFocalLoss | None = None
    pairwise_loss: PairwiseLoss | None = None
    pairwise_focal_loss: PairwiseFocalLoss | None = None
    pairwise_logistic_loss: PairwiseLogisticLoss | None = None
    jrc_loss: JrcLoss | None = None
    pairwise_hinge_loss: PairwiseHingeLoss | None = None
    listwise_rank_loss: ListwiseRankLoss | None = None
    listwise_distill_loss: ListwiseDistillLoss | None = None
    ziln_loss: ZilnLoss | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (PARAMETERS,)

    def options(self, loss_type: LossType, *, weight: float) -> LossOptions:
        """Return the loss with these parameters, or with the defaults of its type."""
        given = [getattr(self, name) for name in PARAMETERS]
        message = next((one for one in given if one is not None), None)
        if message is None:
            message = DEFAULTS.get(loss_type)
        values = {} if message is None else {n: getattr(message, n) for n in _fields(message)}
        values = {NAMES.get(name, name): value for name, value in values.items()}
        values = {n: v for n, v in values.items() if n in LossOptions.model_fields}
        if values.get("session"):
            values["session"] = f"{GROUPED}{values['session']}"
        return LossOptions(kind=KINDS[loss_type], weight=weight, **values)


DEFAULTS: Mapping[str, Message] = MappingProxyType(
    {
        "F1_REWEIGHTED_LOSS": F1ReweightedLoss(),
        "SOFTMAX_CROSS_ENTROPY_WITH_NEGATIVE_MINING": SoftmaxNegativeMining(),
        "CIRCLE_LOSS": CircleLoss(),
        "MULTI_SIMILARITY_LOSS": MultiSimilarityLoss(),
        "BINARY_FOCAL_LOSS": BinaryFocalLoss(),
        "PAIR_WISE_LOSS": PairwiseLoss(),
        "PAIRWISE_FOCAL_LOSS": PairwiseFocalLoss(),
        "PAIRWISE_LOGISTIC_LOSS": PairwiseLogisticLoss(),
        "PAIRWISE_HINGE_LOSS": PairwiseHingeLoss(),
        "JRC_LOSS": JrcLoss(),
        "LISTWISE_RANK_LOSS": ListwiseRankLoss(),
        "LISTWISE_DISTILL_LOSS": ListwiseDistillLoss(),
        "ZILN_LOSS": ZilnLoss(),
    }
)


class Loss(Parameters):
    """One of several losses."""

    loss_type: LossType
    weight: float = 1.0
    learn_loss_weight: bool = False
    loss_name: str = ""


class Kd(Parameters):
    """A loss against a soft label."""

    loss_name: str = ""
    pred_name: str
    pred_is_logits: bool = True
    soft_label_name: str
    label_is_logits: bool = True
    loss_type: LossType
    loss_weight: float = 1.0
    temperature: float = Field(default=1.0, gt=0)
    task_space_indicator_name: str = ""
    task_space_indicator_value: str = ""
    in_task_space_weight: float = 1.0
    out_task_space_weight: float = 1.0


def loss_options(message: Loss) -> LossOptions:
    """Return a loss."""
    return message.options(message.loss_type, weight=message.weight)


def distillation_options(message: Kd) -> DistillationOptions:
    """Return the loss of a soft label."""
    names = (message.pred_name.replace("/", "_"), message.soft_label_name.replace("/", "_"))
    options = message.options(message.loss_type, weight=message.loss_weight)
    return DistillationOptions(
        name=message.loss_name or f"kd_loss_{names[0]}_{names[1]}",
        output=message.pred_name,
        output_is_logits=message.pred_is_logits,
        label=message.soft_label_name,
        label_is_logits=message.label_is_logits,
        loss=options.model_copy(update={"temperature": message.temperature}),
        space=space_options(
            feature=message.task_space_indicator_name,
            value=message.task_space_indicator_value,
            inside=message.in_task_space_weight,
            outside=message.out_task_space_weight,
        ),
    )


def space_options(
    *, label: str = "", feature: str = "", value: str = "", inside: float, outside: float
) -> SampleSpaceOptions:
    """Return the weights of a sample space."""
    return SampleSpaceOptions(
        label=label,
        feature=f"{GROUPED}{feature}" if feature else "",
        value=value,
        inside=inside,
        outside=outside,
    )


def _fields(message: Message) -> list[str]:
    return list(type(message).model_fields)


def grouping_features(
    losses: Iterable[LossOptions], towers: Iterable[Any], distillation: Iterable[Kd]
) -> list[str]:
    """Return the features that losses compare samples within, or that define sample spaces."""
    found = [one.session for one in losses]
    for tower in towers:
        found += [loss_options(one).session for one in tower.losses]
        name = tower.task_space_indicator_name
        found += [f"{GROUPED}{name}"] if name else []
    for one in map(distillation_options, distillation):
        found += [one.loss.session, one.space.feature]
    return [name for name in found if name]
