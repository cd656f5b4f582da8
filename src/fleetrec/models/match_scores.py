"""Scores of users against items: of the same sample, of the batch, and of sampled items."""

# Shape suffixes: B samples, N sampled items, C candidates, S slots of hard negatives, D width.

from collections.abc import Callable

import torch
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.samplers import OWNER, SLOT
from fleetrec.core.batch import Batch
from fleetrec.core.sides import NEGATIVES
from fleetrec.models.group_model import task_of
from fleetrec.tasks.in_batch import InBatchTask
from fleetrec.tasks.task import Task


def is_list_wise(config: GroupModelOptions) -> bool:
    """Return whether a user's item is compared with other items, not by its label."""
    return config.loss == "softmax" and config.num_class == 1


def match_task(config: GroupModelOptions, *, ignores_batch_items: bool = False) -> Task:
    """Return the task of a model of users and items."""
    if not is_list_wise(config):
        return task_of(config)
    return InBatchTask(
        label=config.labels[0],
        metrics=config.metrics,
        has_batch_items=not (ignores_batch_items and config.has_negatives),
        has_sampled_items=config.has_negatives,
    )


def candidate_scores(
    batch: Batch,
    user_BD: Tensor,
    item_BD: Tensor,
    *,
    negatives: Callable[[], Tensor],
    ignores_batch_items: bool = False,
) -> Tensor:
    """Return the inner products of users with their candidates, in the order of InBatchTask.

    ``negatives`` returns the vectors of the sampled items; it is called if the batch has any. Hard
    negatives are candidates of their own sample only.
    """
    if NEGATIVES not in batch.other_sides:
        return user_BD @ item_BD.T
    side = batch.side(NEGATIVES)
    owner_N = side.dense[OWNER].flatten().to(torch.int64)
    negative_ND = negatives()
    is_shared_N = owner_N < 0
    if ignores_batch_items:
        first_BC = (user_BD * item_BD).sum(dim=1, keepdim=True)
    else:
        first_BC = user_BD @ item_BD.T
    parts = [first_BC, user_BD @ negative_ND[is_shared_N].T]
    if not bool(is_shared_N.all()):
        slot_N = side.dense[SLOT].flatten().to(torch.int64)
        owner_H, slot_H = owner_N[~is_shared_N], slot_N[~is_shared_N]
        scores_H = (user_BD[owner_H] * negative_ND[~is_shared_N]).sum(dim=1)
        lowest = torch.finfo(scores_H.dtype).min / 2
        empty_BS = scores_H.new_full((len(user_BD), int(slot_H.max()) + 1), lowest)
        parts.append(empty_BS.index_put((owner_H, slot_H), scores_H))
    return torch.cat(parts, dim=1)


def pair_outputs(score_B: Tensor) -> dict[str, Tensor]:
    """Return the outputs for the item of the same sample."""
    return {"logits": score_B, "probs": torch.sigmoid(score_B)}
