"""AUC within users or sessions, averaged."""

# Shape suffixes: N samples, B samples of a batch, G groups.

import math
from collections.abc import Mapping
from typing import Literal, Self

import torch
from torch import Tensor

from fleetrec.tasks.metric import Metric

Reduction = Literal["mean", "mean_by_sample_num", "mean_by_positive_num"]


class GroupAuc(Metric):
    """Exact AUC by group: keeps group, score and label of every sample; merging concatenates them.

    Groups with only one class are left out; if no group is left, the value is 0.
    """

    def __init__(self, name: str, *, reduction: Reduction) -> None:
        self._name = name
        self._reduction = reduction
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def update(self, groups_B: Tensor, scores_B: Tensor, labels_B: Tensor) -> None:
        """Add a batch; groups are any 64-bit numbers."""
        part = (groups_B, scores_B.to(torch.float32), labels_B > 0.5)
        self._parts.append(tuple(column.detach().cpu() for column in part))  # type: ignore[arg-type]

    def counters(self) -> dict[str, Tensor]:
        """Return all samples."""
        groups_N, scores_N, labels_N = self._columns()
        self._parts = [(groups_N, scores_N, labels_N)]
        return {"groups": groups_N, "scores": scores_N, "labels": labels_N}

    def merge(self, other: Self) -> None:
        """Add the samples of another metric."""
        self._parts.extend(other._parts)

    def load(self, counters: Mapping[str, Tensor]) -> None:
        """Add the samples of another metric."""
        self._parts = [(counters["groups"], counters["scores"], counters["labels"])]

    def reset(self) -> None:
        """Remove all samples."""
        self._parts = []

    def headline(self) -> dict[str, float]:
        """Return nothing: too expensive for a progress line."""
        return {}

    def compute(self) -> dict[str, float]:
        """Return the mean over groups."""
        groups_N, scores_N, labels_N = self._columns()
        if not len(groups_N):
            return {self._name: math.nan}
        auc_G, num_samples_G, num_positive_G = _auc_by_group(groups_N, scores_N, labels_N)
        weights_G = {
            "mean": torch.ones_like(auc_G),
            "mean_by_sample_num": num_samples_G,
            "mean_by_positive_num": num_positive_G,
        }[self._reduction]
        total = float(weights_G.sum())
        return {self._name: float((auc_G * weights_G).sum()) / total if total else 0.0}

    def _columns(self) -> tuple[Tensor, Tensor, Tensor]:
        if not self._parts:
            empty = torch.empty(0)
            return empty.to(torch.int64), empty, empty.to(torch.bool)
        groups, scores, labels = zip(*self._parts, strict=True)
        return torch.cat(groups), torch.cat(scores), torch.cat(labels)


def _auc_by_group(
    groups_N: Tensor, scores_N: Tensor, labels_N: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return AUC, samples and positives of the groups that have both classes; ties count half."""
    _, groups_N = torch.unique(groups_N, return_inverse=True)
    num_groups = int(groups_N.max()) + 1
    _, levels_N = torch.unique(scores_N, return_inverse=True)  # equal scores, equal level
    keys_N = groups_N * (int(levels_N.max()) + 1) + levels_N
    cells, cells_N = torch.unique(keys_N, return_inverse=True)  # group and level, in this order
    positives_N = labels_N.to(torch.float64)
    positive_C = torch.zeros(len(cells), dtype=torch.float64).index_add(0, cells_N, positives_N)
    negative_C = torch.zeros(len(cells), dtype=torch.float64).index_add(0, cells_N, 1 - positives_N)
    group_C = torch.zeros(len(cells), dtype=torch.int64).scatter(0, cells_N, groups_N)
    below_C = negative_C.cumsum(0) - negative_C
    zeros_G = torch.zeros(num_groups, dtype=torch.float64)
    negative_G = zeros_G.index_add(0, group_C, negative_C)
    before_G = negative_G.cumsum(0) - negative_G
    right_C = positive_C * (below_C - before_G[group_C] + 0.5 * negative_C)
    right_G = zeros_G.index_add(0, group_C, right_C)
    positive_G = zeros_G.index_add(0, group_C, positive_C)
    both_G = (positive_G > 0) & (negative_G > 0)
    pairs_G = (positive_G * negative_G)[both_G]
    num_samples_G = (positive_G + negative_G)[both_G]
    return right_G[both_G] / pairs_G, num_samples_G, positive_G[both_G]
