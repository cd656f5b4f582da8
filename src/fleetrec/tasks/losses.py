"""Losses over a batch; with sample weights, the mean over samples with a weight above 0."""

# Shape suffixes: B samples, K classes.

import torch
from torch import Tensor
from torch.nn import functional


def log_loss(logit_B: Tensor, labels_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the log loss of P(label = 1) = sigmoid(logit)."""
    if weights_B is None:
        return functional.binary_cross_entropy_with_logits(logit_B, labels_B)
    losses_B = functional.binary_cross_entropy_with_logits(logit_B, labels_B, reduction="none")
    return _weighted(losses_B, weights_B)


def squared_loss(values_B: Tensor, labels_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the squared error."""
    losses_B = (values_B - labels_B).square()
    return losses_B.mean() if weights_B is None else _weighted(losses_B, weights_B)


def softmax_loss(logits_BK: Tensor, labels_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the cross entropy; the label is the index of the class."""
    losses_B = functional.cross_entropy(logits_BK, labels_B.to(torch.int64), reduction="none")
    return losses_B.mean() if weights_B is None else _weighted(losses_B, weights_B)


def _weighted(losses_B: Tensor, weights_B: Tensor) -> Tensor:
    return (losses_B * weights_B).sum() / weights_B.count_nonzero().clamp(min=1)
