"""The choice of one of many classes, such as the next item of a session."""

# Shape suffixes: B samples, K classes.

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.tasks.mean_metric import MeanMetric
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.ranking import RankingMetric, ranks_of
from fleetrec.tasks.task import Outputs, Task, output_of


class ChoiceTask(Task):
    """Learns the class of a sample by a softmax over ``logits``.

    With a ``margin`` the loss is a hinge instead: max(0, margin - logit + other logit), averaged
    over the ``num_negatives`` other classes with the highest logits.

    All classes are ranked in evaluation. With depths, the metrics are recall, NDCG and MRR at each
    of them; without, the accuracy.
    """

    def __init__(
        self,
        *,
        label: str,
        num_classes: int,
        depths: Sequence[int] = (),
        margin: float | None = None,
        num_negatives: int = 1,
    ) -> None:
        self._margin = margin
        self._num_negatives = min(num_negatives, num_classes - 1)
        self.label = label
        self._num_classes = num_classes
        self._depths = tuple(min(depth, num_classes) for depth in depths)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean loss; with sample weights, over samples with a weight above 0."""
        losses_B = self._losses(output_of(outputs, "logits"), self._labels(batch))
        if batch.weights_B is None:
            return losses_B.mean()
        return (losses_B * batch.weights_B).sum() / batch.weights_B.count_nonzero().clamp(min=1)

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        quality = RankingMetric(self._depths) if self._depths else MeanMetric("ACC")
        return MetricSet([MeanMetric("LOSS"), quality])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch."""
        assert isinstance(metric, MetricSet)
        loss, quality = metric.metrics
        assert isinstance(loss, MeanMetric)
        logits_BK, labels_B = output_of(outputs, "logits"), self._labels(batch)
        loss.update(self._losses(logits_BK, labels_B))
        ranks_B = ranks_of(logits_BK, labels_B)
        if isinstance(quality, RankingMetric):
            quality.update(ranks_B)
        else:
            assert isinstance(quality, MeanMetric)
            quality.update(ranks_B == 1)

    def _losses(self, logits_BK: Tensor, labels_B: Tensor) -> Tensor:
        own_B1 = labels_B.to(torch.int64).unsqueeze(1)
        if self._margin is None:
            return functional.cross_entropy(logits_BK, own_B1.squeeze(1), reduction="none")
        others_BK = logits_BK.scatter(1, own_B1, float("-inf"))
        closest_BN = others_BK.topk(self._num_negatives, dim=1).values
        hinges_BN = functional.relu(self._margin - logits_BK.gather(1, own_B1) + closest_BN)
        return hinges_BN.mean(dim=1)

    def _labels(self, batch: Batch) -> Tensor:
        labels_B = batch.label(self.label)
        odd = labels_B[(labels_B < 0) | (labels_B >= self._num_classes) | (labels_B % 1 != 0)]
        if len(odd):
            raise DataError(
                f"label {self.label!r} must be a class from 0 to {self._num_classes - 1}, got "
                f"{float(odd[0]):g}"
            )
        return labels_B
