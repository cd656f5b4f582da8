"""Tasks about conversions that need a click before."""

# Shape suffixes: B samples.

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.core.jagged import KeyedJagged
from fleetrec.tasks.losses import mean_of
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.sample_space import ids_of
from fleetrec.tasks.scored import ScoredTask
from fleetrec.tasks.task import Outputs, Task, output_of

LARGEST = -1e-7  # logarithm of a probability: that of the complement must be finite


class _OfClicks(Task):
    """A task over the outputs of two others; the metrics are those of a task with one label."""

    def __init__(
        self,
        *,
        click: ScoredTask,
        conversion: ScoredTask,
        name: str,
        metrics: Sequence[MetricOptions],
        keeps_samples: bool = True,
    ) -> None:
        self.label, self.name = conversion.label, name
        self._click, self._conversion = click, conversion
        self._metrics = tuple(metrics)
        self._scored = ScoredTask(
            label=conversion.label,
            loss=conversion.loss_name,
            metrics=metrics,
            name=name,
            keeps_samples=keeps_samples,
        )

    def in_training(self) -> Self:
        """Return the task without metrics that keep every sample."""
        return type(self)(
            click=self._click,
            conversion=self._conversion,
            name=self.name,
            metrics=self._metrics,
            keeps_samples=False,
        )

    def new_metric(self) -> Metric:
        """Return empty metrics."""
        return self._scored.new_metric()

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss."""

    @property
    def _is_number(self) -> bool:
        return self._conversion.loss_name == "l2"


class ConversionTask(_OfClicks):
    """Learns whether there were a click and a conversion: P(click) P(conversion | click).

    With the loss ``l2`` the conversion is a number, 0 without a click.
    """

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss of click and conversion times the weight of the task."""
        labels_B = self._both(batch)
        if self._is_number:
            losses_B = (output_of(outputs, f"y_{self.name}") - labels_B).square()
        else:
            log_both_B = self._log_both(outputs)
            log_rest_B = torch.log(-torch.expm1(log_both_B))
            losses_B = -(labels_B * log_both_B + (1 - labels_B) * log_rest_B)
        return mean_of(losses_B, batch.weights_B) * self._conversion.weight

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch."""
        if not self._is_number:  # the loss among the metrics is computed from the logit
            log_both_B = self._log_both(outputs)
            logits_B = log_both_B - torch.log(-torch.expm1(log_both_B))
            outputs = {**outputs, f"logits_{self.name}": logits_B}
        dense = {**batch.dense, self.label: self._both(batch).unsqueeze(1)}
        self._scored.count(metric, outputs, dataclasses.replace(batch, dense=dense, _labels={}))

    def _both(self, batch: Batch) -> Tensor:
        return batch.label(self.label) * batch.label(self._click.label)

    def _log_both(self, outputs: Outputs) -> Tensor:
        click_B, conversion_B = (
            functional.logsigmoid(output_of(outputs, f"logits_{task.name}"))
            for task in (self._click, self._conversion)
        )
        return (click_B + conversion_B).clamp(max=LARGEST)


class ClickedTask(_OfClicks):
    """Metrics of the conversion over samples with a click; nothing is learned."""

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return 0."""
        del batch
        return output_of(outputs, f"probs_{self._click.name}").sum() * 0.0

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add the clicked samples of a batch."""
        clicked_B = batch.label(self._click.label) > 0
        if not bool(clicked_B.any()):
            return
        suffix = f"_{self._conversion.name}"
        own = {
            f"{name.removesuffix(suffix)}_{self.name}": value[clicked_B]
            for name, value in outputs.items()
            if name.endswith(suffix)
        }
        self._scored.count(metric, own, self._clicked(batch, clicked_B))

    def _clicked(self, batch: Batch, clicked_B: Tensor) -> Batch:
        """Return the clicked samples, with what the metrics need of them."""
        names = dict.fromkeys(one.feature for one in self._metrics if one.feature)
        ids = [ids_of(batch, name)[clicked_B] for name in names]
        count = int(clicked_B.sum())
        values_N = torch.cat(ids) if ids else torch.zeros(0, dtype=torch.int64)
        return dataclasses.replace(
            batch,
            ids=KeyedJagged(
                names=tuple(names),
                values_N=values_N,
                offsets=torch.arange(len(values_N) + 1),
                num_samples=count,
            ),
            dense={self.label: batch.label(self.label)[clicked_B].unsqueeze(1)},
            weights_B=None if batch.weights_B is None else batch.weights_B[clicked_B],
            other_sides={},
            embedded={},
            _labels={},
        )
