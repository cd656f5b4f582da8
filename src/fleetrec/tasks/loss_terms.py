"""The losses that a pipeline may name, and the outputs that a model has for them."""

# Shape suffixes: B samples, K classes.

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.config.losses import NUMERIC, LossKind, LossOptions
from fleetrec.tasks.losses import (
    f1_loss,
    focal_loss,
    log_loss,
    mean_of,
    softmax_loss,
    squared_loss,
    ziln_loss,
    ziln_sigma,
)
from fleetrec.tasks.pair_losses import pair_loss
from fleetrec.tasks.session_losses import jrc_loss, listwise_loss

MAX_LOG = 20.0  # of a predicted lognormal value
LOSS_NAMES: Mapping[LossKind, str] = MappingProxyType(
    {
        "classification": "cross_entropy_loss",
        "l2": "l2_loss",
        "sigmoid_l2": "l2_loss",
        "cross_entropy": "cross_entropy_loss",
        "softmax": "softmax_cross_entropy_loss",
        "pairwise": "pair_wise_loss",
        "pairwise_focal": "pairwise_focal_loss",
        "pairwise_logistic": "pairwise_logistic_loss",
        "pairwise_hinge": "pairwise_hinge_loss",
        "f1_reweighted": "f1_reweighted_loss",
        "binary_focal": "binary_focal_loss",
        "jrc": "jrc_loss",
        "ordered_calibration": "order_calibrate_loss",
        "binary_cross_entropy": "binary_cross_entropy_loss",
        "kl": "kl_divergence_loss",
        "listwise_rank": "listwise_rank_loss",
        "listwise_distill": "listwise_distill_loss",
        "ziln": "ziln_loss",
        "circle": "circle_loss",
        "multi_similarity": "multi_similarity_loss",
        "softmax_negative_mining": "softmax_cross_entropy_with_negative_mining",
    }
)

PARAMETERISED = MappingProxyType(
    {"f1_reweighted": f1_loss, "binary_focal": focal_loss, "ziln": ziln_loss}
)
OF_SAMPLES: tuple[LossKind, ...] = (
    "classification",
    "softmax",
    "cross_entropy",
    "binary_cross_entropy",
    "f1_reweighted",
    "binary_focal",
    "ziln",
    "kl",
    "ordered_calibration",
    *NUMERIC,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss compares; ``scores`` are logits, or numbers for a loss of numbers.

    ``previous_B`` are the probabilities of the task before this one.
    """

    scores: Tensor
    labels_B: Tensor
    weights_B: Tensor | None = None
    sessions_B: Tensor | None = None
    previous_B: Tensor | None = None


def loss_term(options: LossOptions, inputs: LossInputs) -> Tensor:
    """Return one loss, without its weight."""
    if options.kind in OF_SAMPLES:
        return _loss_of_samples(options, inputs)
    scores, labels_B = inputs.scores, inputs.labels_B
    if options.kind in ("listwise_rank", "listwise_distill"):
        return listwise_loss(options, scores, labels_B, sessions_B=inputs.sessions_B)
    loss = jrc_loss if options.kind == "jrc" else pair_loss
    weights_B, sessions_B = inputs.weights_B, inputs.sessions_B
    return loss(options, scores, labels_B, weights_B=weights_B, sessions_B=sessions_B)


def _loss_of_samples(options: LossOptions, inputs: LossInputs) -> Tensor:
    """Return a loss that is a mean over samples."""
    scores, labels_B, weights_B = inputs.scores, inputs.labels_B, inputs.weights_B
    if options.kind in PARAMETERISED:
        return PARAMETERISED[options.kind](options, scores, labels_B, weights_B)
    if options.kind == "ordered_calibration":
        if inputs.previous_B is None:
            raise ValueError("ORDER_CALIBRATE_LOSS needs a task tower before this one")
        return mean_of(torch.relu(torch.sigmoid(scores) - inputs.previous_B), weights_B)
    if options.kind == "kl":
        return kl_loss(torch.sigmoid(scores), labels_B, weights_B)
    if options.kind in NUMERIC:
        return squared_loss(scores, labels_B, weights_B)
    loss = softmax_loss if scores.dim() == 2 else log_loss
    return loss(scores, labels_B, weights_B)


def kl_loss(probs_B: Tensor, labels_B: Tensor, weights_B: Tensor | None) -> Tensor:
    """Return the divergence of predicted probabilities from those of the labels."""
    eps = 1e-7
    probs_B, labels_B = probs_B.clamp(eps, 1 - eps), labels_B.clamp(eps, 1 - eps)
    losses = labels_B * (labels_B / probs_B).log()
    if losses.dim() == 1:
        losses = losses + (1 - labels_B) * ((1 - labels_B) / (1 - probs_B)).log()
    else:
        losses = losses.sum(dim=1)
    return mean_of(losses, weights_B)


def output_values(
    losses: Sequence[LossOptions], logits_BK: Tensor, *, suffix: str
) -> dict[str, Tensor]:
    """Return the outputs of a model for its logits, by the names used in serving."""
    kinds = {options.kind for options in losses}
    num_class = logits_BK.shape[1]
    if "l2" in kinds:
        return {f"y{suffix}": logits_BK.squeeze(1)}
    if "sigmoid_l2" in kinds:
        return {f"y{suffix}": torch.sigmoid(logits_BK.squeeze(1))}
    if "ziln" in kinds:
        sigma_B = ziln_sigma(logits_BK, losses[0].max_sigma)
        log_B = functional.logsigmoid(logits_BK[:, 0]) + logits_BK[:, 1] + sigma_B.square() / 2
        return {
            f"logits{suffix}": logits_BK,
            f"probs{suffix}": torch.sigmoid(logits_BK[:, 0]),
            f"y{suffix}": log_B.clamp(-100.0, MAX_LOG).exp(),
        }
    if num_class == 1:
        logit_B = logits_BK.squeeze(1)
        return {f"logits{suffix}": logit_B, f"probs{suffix}": torch.sigmoid(logit_B)}
    probs_BK = torch.softmax(logits_BK, dim=1)
    if "jrc" in kinds:
        return {
            f"logits{suffix}": logits_BK,
            f"pos_logits{suffix}": logits_BK[:, 1],
            f"probs{suffix}": probs_BK[:, 1],
        }
    outputs = {
        f"logits{suffix}": logits_BK,
        f"probs{suffix}": probs_BK,
        f"y{suffix}": logits_BK.argmax(dim=1),
        f"logits{suffix}_y": logits_BK.amax(dim=1),
        f"probs{suffix}_y": probs_BK.amax(dim=1),
    }
    if num_class == 2:
        outputs |= {f"logits{suffix}_1": logits_BK[:, 1], f"probs{suffix}_1": probs_BK[:, 1]}
    return outputs
