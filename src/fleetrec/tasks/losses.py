"""Losses over a batch; with sample weights, the mean over samples with a weight above 0."""

# Shape suffixes: B samples, K classes.

import math

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.config.losses import LossOptions


def log_loss(logit_B: Tensor, labels_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the log loss of P(label = 1) = sigmoid(logit)."""
    if weights_B is None:
        return functional.binary_cross_entropy_with_logits(logit_B, labels_B)
    losses_B = functional.binary_cross_entropy_with_logits(logit_B, labels_B, reduction="none")
    return mean_of(losses_B, weights_B)


def squared_loss(values_B: Tensor, labels_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the squared error."""
    return mean_of((values_B - labels_B).square(), weights_B)


def softmax_loss(logits_BK: Tensor, labels_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the cross entropy; the label is the index of the class."""
    losses_B = functional.cross_entropy(logits_BK, labels_B.to(torch.int64), reduction="none")
    return mean_of(losses_B, weights_B)


def f1_loss(
    options: LossOptions, logit_B: Tensor, labels_B: Tensor, weights_B: Tensor | None
) -> Tensor:
    """Return the log loss in which negatives have the weight that maximises F1.

    Lin et al., "Adaptive Scaling for Sparse Detection in Information Extraction", ACL 2018.
    """
    num_positive = labels_B.sum()
    expected_positive = torch.sigmoid(logit_B).sum()  # the expected number of true negatives is
    num_negative = len(labels_B) - num_positive  # the number of samples less this
    divisor = options.f1_beta_square * num_positive + num_negative
    divisor = divisor - (len(labels_B) - expected_positive) + 1e-8
    weight_B = torch.where(labels_B == 1, 1.0, expected_positive / divisor)
    if weights_B is not None:
        weight_B = weight_B * weights_B
    smooth_B = _smoothed(labels_B, options.label_smoothing)
    losses_B = functional.binary_cross_entropy_with_logits(logit_B, smooth_B, reduction="none")
    return mean_of(losses_B, weight_B)


def focal_loss(
    options: LossOptions, logit_B: Tensor, labels_B: Tensor, weights_B: Tensor | None
) -> Tensor:
    """Return the log loss times (1 - p)^gamma, p the probability of the label.

    Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.
    """
    smooth_B = _smoothed(labels_B, options.label_smoothing)
    losses_B = functional.binary_cross_entropy_with_logits(logit_B, smooth_B, reduction="none")
    probability_B = torch.sigmoid(logit_B)
    right_B = labels_B * probability_B + (1 - labels_B) * (1 - probability_B)
    losses_B = losses_B * (1 - right_B) ** options.gamma
    if options.alpha is not None:
        losses_B = losses_B * (labels_B * options.alpha + (1 - labels_B) * (1 - options.alpha))
    if options.ohem_ratio >= 1:
        return mean_of(losses_B, weights_B)
    weighted_B = losses_B if weights_B is None else losses_B * weights_B
    return weighted_B.topk(max(1, int(len(losses_B) * options.ohem_ratio))).values.mean()


def ziln_loss(
    options: LossOptions, logits_B3: Tensor, labels_B: Tensor, weights_B: Tensor | None
) -> Tensor:
    """Return the loss of a value that is often 0 and else lognormal.

    Wang et al., "A Deep Probabilistic Model for Customer Lifetime Value Prediction", 2019. The
    three logits are those of a positive value, of its mean and of its deviation.
    """
    positive_B = (labels_B > 0).to(logits_B3.dtype)
    class_loss = log_loss(logits_B3[:, 0], positive_B, weights_B)
    mean_B, sigma_B = logits_B3[:, 1], ziln_sigma(logits_B3, options.max_sigma)
    log_B = torch.where(labels_B > 0, labels_B, 1.0).log()
    errors_B = ((log_B - mean_B) / sigma_B).square() / 2
    negative_B = errors_B + sigma_B.log() + log_B + math.log(2 * math.pi) / 2
    counts_B = positive_B if weights_B is None else positive_B * weights_B
    regression = (negative_B * counts_B).sum() / (counts_B.sum() + 1e-8)
    loss = options.class_weight * class_loss + options.regression_weight * regression
    loss = loss + options.mu_penalty * mean_B.square().mean()
    return loss + options.sigma_penalty * logits_B3[:, 2].square().mean()


def ziln_sigma(logits_B3: Tensor, max_sigma: float) -> Tensor:
    """Return the deviation of the logarithm of a value."""
    return functional.softplus(logits_B3[:, 2]).clamp(math.sqrt(1e-7), max_sigma)


def mean_of(losses_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the mean; with weights over the samples with a weight above 0."""
    if weights_B is None:
        return losses_B.mean()
    return (losses_B * weights_B).sum() / weights_B.count_nonzero().clamp(min=1)


def _smoothed(labels_B: Tensor, smoothing: float) -> Tensor:
    return labels_B * (1 - smoothing) + smoothing / 2 if smoothing else labels_B
