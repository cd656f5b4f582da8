"""Losses over the samples of a session."""

# Shape suffixes: B samples, S sessions.

import math

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.config.losses import LossOptions
from fleetrec.core.errors import DataError
from fleetrec.tasks.losses import mean_of


def jrc_loss(
    options: LossOptions,
    logits_B2: Tensor,
    labels_B: Tensor,
    *,
    weights_B: Tensor | None,
    sessions_B: Tensor | None,
) -> Tensor:
    """Return alpha times the cross entropy, plus 1 - alpha times a loss within sessions.

    Sheng et al., "Joint Optimization of Ranking and Calibration with Contextualized Hybrid Model",
    KDD 2023. The second part is the log-likelihood of a sample among those of its session, given
    its label.
    """
    labels_B = labels_B.to(torch.int64)
    entropy_B = functional.cross_entropy(logits_B2, labels_B, reduction="none")
    entropy = mean_of(entropy_B, weights_B)
    sessions_B = needed(sessions_B, "JRC_LOSS")
    mask_BB = sessions_B.unsqueeze(1) == sessions_B.unsqueeze(0)
    logit_BB = logits_B2[:, labels_B]  # of every sample, for the label of another
    if not options.same_label_loss:
        own_BB = torch.eye(len(labels_B), dtype=torch.bool, device=labels_B.device)
        same_BB = labels_B.unsqueeze(1) == labels_B.unsqueeze(0)
        mask_BB = mask_BB & (own_BB | ~same_BB)
    logit_BB = logit_BB.masked_fill(~mask_BB, torch.finfo(logit_BB.dtype).min)
    generative_B = -torch.log_softmax(logit_BB, dim=0).diagonal()
    generative = mean_of(generative_B, weights_B)
    alpha = 0.5 if options.alpha is None else options.alpha
    share = _share(options, alpha, like=entropy)
    return share * entropy + (1 - share) * generative


def listwise_loss(
    options: LossOptions, logits_B: Tensor, labels_B: Tensor, *, sessions_B: Tensor | None
) -> Tensor:
    """Return the cross entropy of the scores of a session against its labels.

    With ``listwise_distill`` the labels give an order, and the loss is the negative log-likelihood
    of it.
    """
    sessions_B = needed(sessions_B, "a list-wise loss")
    scores_B = logits_B / options.temperature
    _, place_B = torch.unique(sessions_B, return_inverse=True)
    if options.kind == "listwise_distill":
        clipped_B = labels_B.clamp(max=options.label_clip_max)
        return _order_loss(scores_B, clipped_B, place_B)
    targets_B = labels_B
    if options.label_is_logits:
        targets_B = _log_softmax(labels_B / options.temperature, place_B).exp()
    losses_B = -targets_B * _log_softmax(scores_B, place_B)
    num_sessions = int(place_B.max()) + 1
    return losses_B.sum() / num_sessions


def needed(sessions_B: Tensor | None, what: str) -> Tensor:
    """Return the sessions; raise an error if there are none."""
    if sessions_B is None:
        raise DataError(f"{what} needs session_name, a column whose values are the sessions")
    return sessions_B


def _share(options: LossOptions, alpha: float, *, like: Tensor) -> Tensor | float:
    """Return the weight of the first of two losses."""
    match options.mixing:
        case "random_uniform":
            return torch.rand((), device=like.device)
        case "random_normal":
            return torch.sigmoid(math.sqrt(2) * torch.randn((), device=like.device))
        case "random_bernoulli":
            return torch.randint(0, 3, (), device=like.device).to(like.dtype) / 2
    return alpha


def _log_softmax(scores_B: Tensor, place_B: Tensor) -> Tensor:
    """Return the logarithm of a softmax within sessions."""
    num_sessions = int(place_B.max()) + 1
    low_S = scores_B.new_full((num_sessions,), torch.finfo(scores_B.dtype).min)
    highest_S = low_S.scatter_reduce(0, place_B, scores_B.detach(), "amax")
    shifted_B = scores_B - highest_S[place_B]
    sums_S = scores_B.new_zeros(num_sessions).index_add(0, place_B, shifted_B.exp())
    return shifted_B - sums_S.log()[place_B]


def _order_loss(scores_B: Tensor, labels_B: Tensor, place_B: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of choosing the samples by falling label."""
    order_B = torch.argsort(labels_B, descending=True, stable=True)
    order_B = order_B[torch.argsort(place_B[order_B], stable=True)]
    lengths_S = torch.bincount(place_B)
    sorted_B = scores_B[order_B]
    longest = int(lengths_S.max())
    padded_SL = sorted_B.new_full((len(lengths_S), longest), torch.finfo(sorted_B.dtype).min)
    mask_SL = torch.arange(longest, device=scores_B.device) < lengths_S.unsqueeze(1)
    padded_SL = padded_SL.masked_scatter(mask_SL, sorted_B)
    rest_SL = padded_SL.flip(1).logcumsumexp(dim=1).flip(1)
    return ((rest_SL - padded_SL) * mask_SL).sum() / len(lengths_S)
