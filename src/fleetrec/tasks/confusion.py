"""Metrics of decisions: whether a probability is above a threshold."""

# Shape suffixes: B samples, T thresholds.

import math

import torch
from torch import Tensor

from fleetrec.tasks.metric import Metric

NUM_THRESHOLDS = 200


class ThresholdMetric(Metric):
    """``max_f1`` over 200 thresholds from 0 to 1; ``precision`` and ``recall`` at 0.5."""

    def __init__(self, name: str) -> None:
        self._name = name
        inner = torch.arange(1, NUM_THRESHOLDS - 1, dtype=torch.float64) / (NUM_THRESHOLDS - 1)
        ends = torch.tensor([-1e-7, 1 + 1e-7], dtype=torch.float64)
        several = torch.cat([ends[:1], inner, ends[1:]])
        self._thresholds_T = several if name == "max_f1" else torch.tensor([0.5]).double()
        self._counts = torch.zeros(3, len(self._thresholds_T), dtype=torch.int64)

    def update(self, scores_B: Tensor, labels_B: Tensor) -> None:
        """Count a batch of probabilities and 0/1 labels."""
        scores_B = scores_B.detach().to("cpu", torch.float64)
        positive_B = labels_B.detach().cpu() > 0.5
        # The number of thresholds below a score is where its decision turns.
        above_B = torch.searchsorted(self._thresholds_T, scores_B, side="left")
        size = len(self._thresholds_T) + 1
        hits = torch.bincount(above_B[positive_B], minlength=size).flip(0).cumsum(0).flip(0)[1:]
        chosen = torch.bincount(above_B, minlength=size).flip(0).cumsum(0).flip(0)[1:]
        self._counts += torch.stack([hits, chosen, positive_B.sum().expand_as(hits)])

    def counters(self) -> dict[str, Tensor]:
        """Return true positives, decided positives and positives, by threshold."""
        return {"counts": self._counts}

    def headline(self) -> dict[str, float]:
        """Return the value."""
        return self.compute()

    def compute(self) -> dict[str, float]:
        """Return the value; nan without a sample that counts."""
        hits_T, chosen_T, positive_T = self._counts.double()
        match self._name:
            case "precision":
                value_T = hits_T / chosen_T
            case "recall":
                value_T = hits_T / positive_T
            case _:
                value_T = (2 * hits_T / (chosen_T + positive_T)).nan_to_num(0.0)
        value = float(value_T.max())
        return {self._name: value if math.isfinite(value) else math.nan}
