"""Pairs of candidates of which one fits better than the other."""

# Shape suffixes: B samples, N negatives.

import math

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.ranking import RankingMetric
from fleetrec.tasks.task import Outputs, Task, output_of


class PosNegRatio(Metric):
    """How often the better candidate has the higher score: PN = (right + 1) / (wrong + 1).

    A tie is wrong. ACC is the share of right pairs, LOSS the mean loss of a sample.
    """

    def __init__(self) -> None:
        self._pairs = torch.zeros(2, dtype=torch.int64)  # right, wrong
        self._losses = torch.zeros(2, dtype=torch.float64)  # sum, number of samples

    def update(self, positive_B1: Tensor, negatives_BN: Tensor, losses_B: Tensor) -> None:
        """Add the scores of samples, and their losses."""
        right = int((positive_B1 > negatives_BN).sum())
        self._pairs += torch.tensor([right, negatives_BN.numel() - right])
        losses_B = losses_B.detach().to("cpu", torch.float64)
        self._losses += torch.tensor([float(losses_B.sum()), len(losses_B)], dtype=torch.float64)

    def counters(self) -> dict[str, Tensor]:
        """Return pairs and losses."""
        return {"pairs": self._pairs, "losses": self._losses}

    def headline(self) -> dict[str, float]:
        """Return loss and accuracy."""
        num_pairs, num_samples = int(self._pairs.sum()), float(self._losses[1])
        loss = float(self._losses[0]) / num_samples if num_samples else math.nan
        return {"LOSS": loss, "ACC": int(self._pairs[0]) / num_pairs if num_pairs else math.nan}

    def compute(self) -> dict[str, float]:
        """Return loss, accuracy and ratio."""
        right, wrong = (int(count) for count in self._pairs)
        return {**self.headline(), "PN": (right + 1) / (wrong + 1)}


class PairwiseTask(Task):
    """Learns that ``positive`` is above every one of ``negatives``; samples have no label.

    The loss is a hinge, max(0, margin - positive + negative), averaged over the negatives; or
    without a margin the log loss of the positive in a softmax over all candidates. Data without
    negatives is only scored. All samples of a data set have as many negatives. With a ``depth`` the
    metrics include recall, NDCG and MRR of the positive among its candidates.
    """

    label = ""

    def __init__(
        self, *, margin: float | None, depth: int | None = None, positive: str = "positive"
    ) -> None:
        self._positive = positive  # the output with the score of the better candidate
        self._margin = margin
        self._depth = depth

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean loss."""
        positive_B = output_of(outputs, self._positive)
        if "negatives" not in outputs:
            if positive_B.requires_grad:
                raise DataError("training compares candidates, but the data has no negative ones")
            return positive_B.new_zeros(())
        losses_B = self._losses(positive_B, outputs["negatives"])
        if batch.weights_B is None:
            return losses_B.mean()
        return (losses_B * batch.weights_B).sum() / batch.weights_B.count_nonzero().clamp(min=1)

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        rankings = [] if self._depth is None else [RankingMetric([self._depth])]
        return MetricSet([PosNegRatio(), *rankings])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:  # noqa: ARG002
        """Add a batch."""
        assert isinstance(metric, MetricSet)
        pairs, *rankings = metric.metrics
        assert isinstance(pairs, PosNegRatio)
        if "negatives" not in outputs:
            return
        positive_B, negatives_BN = outputs[self._positive], outputs["negatives"]
        losses_B = self._losses(positive_B, negatives_BN)
        pairs.update(positive_B.unsqueeze(1), negatives_BN, losses_B)
        for ranking in rankings:
            assert isinstance(ranking, RankingMetric)
            ranking.update(1 + (negatives_BN >= positive_B.unsqueeze(1)).sum(dim=1))

    def _losses(self, positive_B: Tensor, negatives_BN: Tensor) -> Tensor:
        if self._margin is None:
            scores_BN = torch.cat([positive_B.unsqueeze(1), negatives_BN], dim=1)
            return -torch.log_softmax(scores_BN, dim=1)[:, 0]
        return functional.relu(self._margin - positive_B.unsqueeze(1) + negatives_BN).mean(dim=1)
