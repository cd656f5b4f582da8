"""Losses of single samples; take their mean to get the loss to minimise."""

# Shape suffixes: B samples, K classes.

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import Call, Compute, Variable, record
from fleetrec.fluid.missing import check_defaults

IGNORED = -100


def cross_entropy(
    input: Variable,
    label: Variable,
    soft_label: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    ignore_index: int = IGNORED,
) -> Variable:
    """Return -log of the probability of the class of the label, of shape [-1, 1].

    ``input`` are probabilities, ``label`` the index of the class; with ``soft_label`` a probability
    of each class.
    """
    check_defaults("fluid.layers.cross_entropy", {"ignore_index": (ignore_index, IGNORED)})

    def compute(call: Call) -> Tensor:
        probabilities_BK, labels = call.inputs
        logs_BK = probabilities_BK.clamp(min=torch.finfo(torch.float32).tiny).log()
        return _picked(logs_BK, labels, is_soft=soft_label)

    return _compare("cross_entropy", input, label, compute, is_class=not soft_label)


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    ignore_index: int = IGNORED,
) -> Variable:
    """Return -log softmax(logits) of the class of the label, of shape [-1, 1]."""
    where = "fluid.layers.softmax_with_cross_entropy"
    check_defaults(where, {"ignore_index": (ignore_index, IGNORED)})

    def compute(call: Call) -> Tensor:
        logits_BK, labels = call.inputs
        return _picked(logits_BK.log_softmax(dim=-1), labels, is_soft=soft_label)

    return _compare("softmax_with_cross_entropy", logits, label, compute, is_class=not soft_label)


def log_loss(
    input: Variable,
    label: Variable,
    epsilon: float = 1e-4,
    name: str | None = None,
) -> Variable:
    """Return -y log(p + epsilon) - (1 - y) log(1 - p + epsilon)."""

    def compute(call: Call) -> Tensor:
        p, y = call.inputs
        return -y * (p + epsilon).log() - (1 - y) * (1 - p + epsilon).log()

    return _compare("log_loss", input, label, compute, name=name)


def sigmoid_cross_entropy_with_logits(
    x: Variable,
    label: Variable,
    ignore_index: int = IGNORED,
    name: str | None = None,
    normalize: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
) -> Variable:
    """Return the log loss of sigmoid(x), of the shape of x."""
    check_defaults(
        "fluid.layers.sigmoid_cross_entropy_with_logits",
        {"ignore_index": (ignore_index, IGNORED), "normalize": (normalize, False)},
    )

    def compute(call: Call) -> Tensor:
        logits, labels = call.inputs
        labels = labels.to(logits.dtype)
        return functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")

    return _compare("sigmoid_cross_entropy_with_logits", x, label, compute, name=name)


def square_error_cost(
    input: Variable,
    label: Variable,
) -> Variable:
    """Return the squared error."""

    def compute(call: Call) -> Tensor:
        return (call.inputs[0] - call.inputs[1]).square()

    return _compare("square_error_cost", input, label, compute)


def _compare(
    kind: str,
    x: Variable,
    label: Variable,
    compute: Compute,
    *,
    is_class: bool = False,
    name: str | None = None,
) -> Variable:
    made = record(kind, [x, label], compute, labels=[label], name=name)
    if is_class and label.shape != (*x.shape[:-1], 1):
        raise ConfigError(
            [
                f"fluid.layers.{kind}: expected labels of shape {[*x.shape[:-1], 1]}, "
                f"got {label.name} {list(label.shape)}"
            ]
        )
    if not is_class and label.shape != x.shape:
        raise ConfigError(
            [
                f"fluid.layers.{kind}: shapes differ: {x.name} {list(x.shape)} and "
                f"{label.name} {list(label.shape)}"
            ]
        )
    return made


def _picked(logs_BK: Tensor, labels: Tensor, *, is_soft: bool) -> Tensor:
    if is_soft:
        return -(logs_BK * labels).sum(dim=-1, keepdim=True)
    return -logs_BK.gather(-1, labels.to(torch.int64))
