"""Losses of pairs of samples, of which one has a higher label."""

# Shape suffixes: B samples, P pairs.

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.config.losses import LossOptions
from fleetrec.tasks.losses import mean_of


def pair_loss(
    options: LossOptions,
    logits_B: Tensor,
    labels_B: Tensor,
    *,
    weights_B: Tensor | None,
    sessions_B: Tensor | None,
) -> Tensor:
    """Return the mean loss of all pairs; 0 if no sample has a higher label than another."""
    difference_BB = labels_B.unsqueeze(1) - labels_B.unsqueeze(0)
    mask_BB = difference_BB > 0
    if sessions_B is not None:
        mask_BB = mask_BB & (sessions_B.unsqueeze(1) == sessions_B.unsqueeze(0))
    scores_B = logits_B / options.temperature
    scores_P = (scores_B.unsqueeze(1) - scores_B.unsqueeze(0))[mask_BB]
    weights_P = None
    if weights_B is not None:
        weights_P = weights_B.unsqueeze(1).expand_as(mask_BB)[mask_BB]
    if not len(scores_P):
        return (logits_B * 0).sum()
    losses_P = _losses(options, scores_P, difference_BB[mask_BB])
    if options.hinge_margin is not None:
        losses_P = torch.where(scores_P < options.hinge_margin, losses_P, 0.0)
    return _hardest(losses_P, weights_P, options.ohem_ratio)


def _losses(options: LossOptions, scores_P: Tensor, difference_P: Tensor) -> Tensor:
    if options.kind == "pairwise_hinge":
        scale_P = difference_P if options.use_label_margin else torch.ones_like(difference_P)
        losses_P = torch.relu(options.margin * scale_P - scores_P)
        return losses_P.exp() - 1 if options.use_exponent else losses_P
    losses_P = functional.softplus(options.margin - scores_P)
    if options.kind != "pairwise_focal":
        return losses_P
    wrong_P = torch.sigmoid(options.margin - scores_P)
    losses_P = losses_P * wrong_P**options.gamma
    return losses_P if options.alpha is None else losses_P * options.alpha


def _hardest(losses_P: Tensor, weights_P: Tensor | None, ratio: float) -> Tensor:
    """Return the mean over the share of pairs with the highest losses."""
    if ratio >= 1:
        return mean_of(losses_P, weights_P)
    weighted_P = losses_P if weights_P is None else losses_P * weights_P
    return weighted_P.topk(max(1, int(len(losses_P) * ratio))).values.mean()
