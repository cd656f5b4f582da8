"""In-batch softmax: the items of the other samples of a batch are the negatives."""

# Shape suffixes: B samples.

from collections.abc import Sequence

import torch
from torch import Tensor

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.tasks.losses import softmax_loss
from fleetrec.tasks.mean_metric import MeanMetric, hits_at
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.task import Outputs, Task, output_of


class InBatchTask(Task):
    """Learns from ``similarity``, one row of logits per sample; its own item is on the diagonal.

    All samples are treated as positives; the label is not used.
    """

    def __init__(self, *, label: str, metrics: Sequence[MetricOptions] = ()) -> None:
        wrong = [metric.name for metric in metrics if metric.name != "recall_at_topk"]
        if wrong:
            raise ValueError(f"metric {wrong[0]} is not for a softmax over a batch")
        self.label = label
        self._topk = [metric.topk for metric in metrics]

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the log loss of each sample's own item."""
        similarity_BB = output_of(outputs, "similarity")
        own_B = torch.arange(batch.num_samples, device=similarity_BB.device)
        return softmax_loss(similarity_BB, own_B, batch.weights_B)

    def new_metric(self) -> Metric:
        """Return empty metrics."""
        recalls = [MeanMetric(f"recall@{topk}") for topk in self._topk]
        return MetricSet([MeanMetric("loss/loss/softmax_cross_entropy_loss"), *recalls])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch."""
        assert isinstance(metric, MetricSet)
        similarity_BB = output_of(outputs, "similarity").cpu()
        own_B = torch.arange(batch.num_samples)
        values = [self.loss(outputs, batch).repeat(batch.num_samples)]
        values += [hits_at(similarity_BB, own_B, topk) for topk in self._topk]
        for one, value_B in zip(metric.metrics, values, strict=True):
            assert isinstance(one, MeanMetric)
            one.update(value_B)
