"""A task of a pipeline model: one label, one of three losses, and metrics."""

# Shape suffixes: B samples, K classes.

from collections.abc import Sequence

import torch
from torch import Tensor

from fleetrec.config.groups import LossName, MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.tasks.binary_metric import BinaryMetric
from fleetrec.tasks.group_auc import GroupAuc
from fleetrec.tasks.labels import check_binary
from fleetrec.tasks.losses import log_loss, softmax_loss, squared_loss
from fleetrec.tasks.mean_metric import MeanMetric, hits_at
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.task import Outputs, Task, output_of

GROUPED = ("gauc", "session_auc")


class ScoredTask(Task):
    """Learns one label from the outputs ``logits``, or ``y`` for a number, with a suffix."""

    def __init__(  # noqa: PLR0913
        self,
        *,
        label: str,
        loss: LossName = "classification",
        num_class: int = 1,
        metrics: Sequence[MetricOptions] = (),
        name: str = "",
        weight: float = 1.0,
        uses_sample_weight: bool = True,
    ) -> None:
        if loss == "softmax" and num_class == 1:
            raise ValueError("loss_type SOFTMAX_CROSS_ENTROPY needs num_class of at least 2")
        self.label = label
        self.name = name
        self.loss_name = loss
        self.num_class = num_class
        self.weight = weight
        self._metrics = tuple(metrics)
        self._uses_sample_weight = uses_sample_weight
        for metric in metrics:
            self._check_metric(metric)

    def in_training(self) -> "ScoredTask":
        """Return the task without metrics that keep every sample."""
        return ScoredTask(
            label=self.label,
            loss=self.loss_name,
            num_class=self.num_class,
            metrics=[metric for metric in self._metrics if metric.name not in GROUPED],
            name=self.name,
            weight=self.weight,
            uses_sample_weight=self._uses_sample_weight,
        )

    def outputs(self, logits_BK: Tensor) -> dict[str, Tensor]:
        """Return the outputs of a model for its logits, by the names used in serving."""
        suffix = f"_{self.name}" if self.name else ""
        if self.loss_name == "l2":
            return {f"y{suffix}": logits_BK.squeeze(1)}
        if self.num_class == 1:
            logit_B = logits_BK.squeeze(1)
            return {f"logits{suffix}": logit_B, f"probs{suffix}": torch.sigmoid(logit_B)}
        return {
            f"logits{suffix}": logits_BK,
            f"probs{suffix}": torch.softmax(logits_BK, dim=1),
            f"y{suffix}": logits_BK.argmax(dim=1),
        }

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss of the batch times the weight of the task."""
        loss = self._plain_loss(outputs, batch)
        return loss if self.weight == 1 else loss * self.weight

    def new_metric(self) -> Metric:
        """Return empty metrics."""
        loss = {"classification": "cross_entropy_loss", "l2": "l2_loss"}.get(
            self.loss_name, "softmax_cross_entropy_loss"
        )
        return MetricSet(
            [MeanMetric(f"loss/loss/{loss}"), *(_new_metric(options) for options in self._metrics)]
        )

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch to all metrics."""
        assert isinstance(metric, MetricSet)
        loss, *others = metric.metrics
        assert isinstance(loss, MeanMetric)
        loss.update(self._plain_loss(outputs, batch).repeat(batch.num_samples))
        for options, one in zip(self._metrics, others, strict=True):
            self._count(options, one, outputs, batch)

    def _plain_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        labels_B = batch.label(self.label)
        weights_B = batch.weights_B if self._uses_sample_weight else None
        if self.loss_name == "l2":
            return squared_loss(self._output(outputs, "y"), labels_B, weights_B)
        logits = self._output(outputs, "logits")
        if self.num_class == 1:
            return log_loss(logits, labels_B, weights_B)
        self._check_classes(labels_B)
        return softmax_loss(logits, labels_B, weights_B)

    def _count(
        self, options: MetricOptions, metric: Metric, outputs: Outputs, batch: Batch
    ) -> None:
        labels_B = batch.label(self.label)
        if isinstance(metric, BinaryMetric):
            check_binary(self.label, labels_B)
            metric.update(self._output(outputs, "probs"), labels_B)
        elif isinstance(metric, GroupAuc):
            check_binary(self.label, labels_B)
            groups_B = batch.ids[options.feature].values
            if len(groups_B) != batch.num_samples:
                raise DataError(f"{options.name}: a sample has no {options.feature!r}")
            metric.update(groups_B, self._output(outputs, "probs"), labels_B)
        elif isinstance(metric, MeanMetric):
            metric.update(self._values(options, outputs, labels_B))

    def _values(self, options: MetricOptions, outputs: Outputs, labels_B: Tensor) -> Tensor:
        if options.name == "accuracy":
            return (self._output(outputs, "y") == labels_B).to(torch.float32)
        if options.name == "recall_at_topk":
            return hits_at(self._output(outputs, "logits"), labels_B, options.topk)
        error_B = self._output(outputs, "y" if self.loss_name == "l2" else "probs") - labels_B
        return error_B.abs() if options.name == "mean_absolute_error" else error_B.square()

    def _output(self, outputs: Outputs, name: str) -> Tensor:
        return output_of(outputs, f"{name}_{self.name}" if self.name else name)

    def _check_metric(self, metric: MetricOptions) -> None:
        is_binary = self.loss_name == "classification" and self.num_class == 1
        needs = {
            **dict.fromkeys(("auc", *GROUPED), ("a loss of one class", is_binary)),
            **dict.fromkeys(("accuracy", "recall_at_topk"), ("num_class > 1", self.num_class > 1)),
        }
        wanted, is_there = needs.get(
            metric.name, ("a number or one class", is_binary or self.loss_name == "l2")
        )
        if not is_there:
            raise ValueError(f"metric {metric.name} needs {wanted}")

    def _check_classes(self, labels_B: Tensor) -> None:
        odd = labels_B[(labels_B < 0) | (labels_B >= self.num_class) | (labels_B % 1 != 0)]
        if len(odd):
            raise DataError(
                f"label {self.label!r} must be a class from 0 to {self.num_class - 1}, got "
                f"{float(odd[0]):g}"
            )


def _new_metric(options: MetricOptions) -> Metric:
    if options.name == "auc":
        return NamedAuc()
    if options.name in ("gauc", "session_auc"):
        return GroupAuc(options.name, reduction=options.reduction)
    if options.name == "recall_at_topk":
        return MeanMetric(f"recall@{options.topk}")
    return MeanMetric(options.name, is_root=options.name == "root_mean_squared_error")


class NamedAuc(BinaryMetric):
    """AUC alone, under the name used in pipelines."""

    def headline(self) -> dict[str, float]:
        """Return AUC."""
        return self.compute()

    def compute(self) -> dict[str, float]:
        """Return AUC."""
        return {"auc": super().headline()["AUC"]}
