"""Metrics of rankings in which one item is the right one."""

# Shape suffixes: B samples, K candidates.

from collections.abc import Sequence

import torch
from torch import Tensor

from fleetrec.tasks.metric import Metric


class RankingMetric(Metric):
    """HitRate, NDCG and MRR at some depths, from the rank of the right item of every sample.

    With one right item the recall at k is the hit rate at k, and the NDCG is 1 / log2(rank + 1).
    """

    def __init__(self, depths: Sequence[int]) -> None:
        self.depths = tuple(depths)
        self._num = torch.zeros(1, dtype=torch.int64)
        self._hits = torch.zeros(len(self.depths), dtype=torch.int64)
        self._gains = torch.zeros(len(self.depths), dtype=torch.float64)
        self._inverse = torch.zeros(len(self.depths), dtype=torch.float64)

    def update(self, ranks_B: Tensor) -> None:
        """Add ranks, from 1 on."""
        ranks_B = ranks_B.detach().to("cpu", torch.float64)
        self._num += len(ranks_B)
        for place, depth in enumerate(self.depths):
            found = ranks_B[ranks_B <= depth]
            self._hits[place] += len(found)
            self._gains[place] += float((1 / torch.log2(found + 1)).sum())
            self._inverse[place] += float((1 / found).sum())

    def counters(self) -> dict[str, Tensor]:
        """Return the number of samples, and sums by depth."""
        return {
            "num": self._num,
            "hits": self._hits,
            "gains": self._gains,
            "inverse": self._inverse,
        }

    def headline(self) -> dict[str, float]:
        """Return the recall at every depth."""
        return {f"RECALL@{k}": self._mean(self._hits, i) for i, k in self._places()}

    def compute(self) -> dict[str, float]:
        """Return recall, NDCG and MRR at every depth."""
        gains = {f"NDCG@{k}": self._mean(self._gains, i) for i, k in self._places()}
        inverse = {f"MRR@{k}": self._mean(self._inverse, i) for i, k in self._places()}
        return {**self.headline(), **gains, **inverse}

    def _places(self) -> list[tuple[int, int]]:
        return list(enumerate(self.depths))

    def _mean(self, sums: Tensor, place: int) -> float:
        num = int(self._num)
        return float(sums[place]) / num if num else float("nan")


def ranks_of(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return the rank of the label among all candidates, from 1 on; ties count against it."""
    own_B1 = logits_BK.gather(1, labels_B.to(torch.int64).unsqueeze(1))
    return (logits_BK >= own_B1).sum(dim=1)
