"""Means over samples: errors, hits, losses."""

# Shape suffixes: B samples, K classes.

import math

import torch
from torch import Tensor

from fleetrec.tasks.metric import Metric


class MeanMetric(Metric):
    """The mean of one value per sample, or its square root."""

    def __init__(self, name: str, *, is_root: bool = False) -> None:
        self._name = name
        self._is_root = is_root
        self._sums = torch.zeros(2, dtype=torch.float64)  # of the numbers, of the samples

    def update(self, values_B: Tensor) -> None:
        """Add one value per sample."""
        values_B = values_B.detach().to("cpu", torch.float64)
        self._sums += torch.tensor([float(values_B.sum()), len(values_B)], dtype=torch.float64)

    def counters(self) -> dict[str, Tensor]:
        """Return the sums."""
        return {"sums": self._sums}

    def headline(self) -> dict[str, float]:
        """Return the mean."""
        return self.compute()

    def compute(self) -> dict[str, float]:
        """Return the mean, or its square root."""
        mean = float(self._sums[0] / self._sums[1])
        return {self._name: math.sqrt(mean) if self._is_root else mean}


def hits_at(logits_BK: Tensor, labels_B: Tensor, topk: int) -> Tensor:
    """Return 1 where the class of the label is among the ``topk`` highest, else 0."""
    top_BT = logits_BK.topk(min(topk, logits_BK.shape[1]), dim=1).indices
    return (top_BT == labels_B.to(torch.int64).unsqueeze(1)).any(dim=1).to(torch.float32)
