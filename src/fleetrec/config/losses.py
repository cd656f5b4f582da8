"""Losses of a task, and of distillation."""

from typing import Literal, get_args

from pydantic import Field

from fleetrec.config.options import Options

LossKind = Literal[
    "classification",
    "l2",
    "sigmoid_l2",
    "cross_entropy",
    "softmax",
    "pairwise",
    "pairwise_focal",
    "pairwise_logistic",
    "pairwise_hinge",
    "f1_reweighted",
    "binary_focal",
    "jrc",
    "ordered_calibration",
    "binary_cross_entropy",
    "kl",
    "listwise_rank",
    "listwise_distill",
    "ziln",
    "circle",
    "multi_similarity",
    "softmax_negative_mining",
]
LOSS_KINDS: tuple[LossKind, ...] = get_args(LossKind)
BINARY: tuple[LossKind, ...] = (  # of one logit, whose sigmoid is a probability
    "classification",
    "cross_entropy",
    "binary_cross_entropy",
    "pairwise",
    "pairwise_focal",
    "pairwise_logistic",
    "pairwise_hinge",
    "f1_reweighted",
    "binary_focal",
    "listwise_rank",
    "ordered_calibration",
)
NUMERIC: tuple[LossKind, ...] = ("l2", "sigmoid_l2")
Mixing = Literal["fixed", "random_uniform", "random_normal", "random_bernoulli"]


class LossOptions(Options):
    """One loss and its parameters, of which every kind reads its own.

    ``session`` is a feature: samples are compared only with those that have the same id of it.
    ``ohem_ratio`` is the share of the hardest samples that count.
    """

    kind: LossKind = "classification"
    weight: float = 1.0
    session: str = ""
    margin: float = 0.0
    gamma: float = 2.0
    alpha: float | None = None
    temperature: float = Field(default=1.0, gt=0)
    hinge_margin: float | None = None
    ohem_ratio: float = Field(default=1.0, gt=0, le=1)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    f1_beta_square: float = Field(default=1.0, gt=0)
    same_label_loss: bool = True
    mixing: Mixing = "fixed"
    label_is_logits: bool = False
    use_label_margin: bool = True
    use_exponent: bool = False
    scale_logits: bool = False
    label_clip_max: float = Field(default=512.0, gt=0)
    max_sigma: float = Field(default=5.0, gt=0)
    mu_penalty: float = Field(default=0.01, ge=0)
    sigma_penalty: float = Field(default=0.01, ge=0)
    class_weight: float = 1.0
    regression_weight: float = 1.0
    num_negatives: int = Field(default=0, ge=0)
    support_vector_weight: float = 1.0
    beta: float = 50.0
    lamb: float = 1.0
    eps: float = 0.1


class SampleSpaceOptions(Options):
    """Weights of samples inside a space and outside of it.

    The space are samples with a positive ``label``, or with the text ``value`` of a ``feature``.
    """

    label: str = ""
    feature: str = ""
    value: str = ""
    inside: float = 1.0
    outside: float = 1.0


class DistillationOptions(Options):
    """A loss of an output against a soft label of the data."""

    name: str
    output: str
    output_is_logits: bool = True
    label: str
    label_is_logits: bool = True
    loss: LossOptions
    space: SampleSpaceOptions = SampleSpaceOptions()
