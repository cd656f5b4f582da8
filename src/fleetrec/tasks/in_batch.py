"""Softmax over items: a sample's own item against those of the others, and against sampled ones."""

# Shape suffixes: B samples, C candidates.

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

SIMILARITY = "_similarity"  # the output of a model: one row of logits per sample


class InBatchTask(Task):
    """Learns from logits of the candidates of every sample.

    The first columns are the items of the batch, so that its own is on the diagonal; sampled items
    follow. Without ``has_batch_items`` the first column is the sample's own item. All samples are
    treated as positives; the label is not used.
    """

    def __init__(
        self,
        *,
        label: str,
        metrics: Sequence[MetricOptions] = (),
        name: str = "",
        has_batch_items: bool = True,
        has_sampled_items: bool = False,
    ) -> None:
        wrong = [metric.name for metric in metrics if metric.name != "recall_at_topk"]
        if wrong:
            raise ValueError(f"metric {wrong[0]} is not for a softmax over a batch")
        self.label = label
        self.name = name
        self._topk = [metric.topk for metric in metrics]
        self._has_batch_items = has_batch_items
        self._has_sampled_items = has_sampled_items

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the log loss of each sample's own item."""
        similarity_BC = output_of(outputs, SIMILARITY)
        return softmax_loss(similarity_BC, self._own(similarity_BC), batch.weights_B)

    def new_metric(self) -> Metric:
        """Return empty metrics."""
        kinds = ["recall"]
        if self._has_batch_items and self._has_sampled_items:
            kinds += ["recall_neg_sam", "recall_in_batch"]
        recalls = [MeanMetric(f"{kind}@{topk}") for topk in self._topk for kind in kinds]
        return MetricSet([MeanMetric("loss/loss/softmax_cross_entropy_loss"), *recalls])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch."""
        assert isinstance(metric, MetricSet)
        similarity_BC = output_of(outputs, SIMILARITY).cpu()
        own_B = self._own(similarity_BC)
        values = [self.loss(outputs, batch).repeat(batch.num_samples)]
        for topk in self._topk:
            values.append(hits_at(similarity_BC, own_B, topk))
            if self._has_batch_items and self._has_sampled_items:
                size = len(similarity_BC)
                mine_B1 = similarity_BC.gather(1, own_B.unsqueeze(1))
                sampled_BC = torch.cat([mine_B1, similarity_BC[:, size:]], dim=1)
                values.append(hits_at(sampled_BC, torch.zeros_like(own_B), topk))
                values.append(hits_at(similarity_BC[:, :size], own_B, topk))
        for one, value_B in zip(metric.metrics, values, strict=True):
            assert isinstance(one, MeanMetric)
            one.update(value_B)

    def _own(self, similarity_BC: Tensor) -> Tensor:
        """Return the column of each sample's own item."""
        size = len(similarity_BC)
        if self._has_batch_items:
            return torch.arange(size, device=similarity_BC.device)
        return torch.zeros(size, dtype=torch.int64, device=similarity_BC.device)
