"""The metrics of a recorded model, as tasks: AUC, and the mean of every variable of one number."""

from collections.abc import Callable

import torch
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.fluid.graph import Variable
from fleetrec.tasks.binary_metric import BinaryMetric
from fleetrec.tasks.labels import check_binary
from fleetrec.tasks.mean_metric import MeanMetric
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.task import Outputs, Task

ValueOf = Callable[[Variable, Outputs, Batch], Tensor]  # of a variable, given some outputs


class _MetricTask(Task):
    """A task without a loss of its own: the loss is a variable of the graph."""

    def __init__(self, value_of: ValueOf, *, label: str) -> None:
        self.label = label
        self._value_of = value_of

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Raise an error: the model computes the loss."""
        raise NotImplementedError("the loss of a recorded model is one of its variables")


class AucTask(_MetricTask):
    """AUC and calibration of a variable of probabilities."""

    def __init__(
        self, value_of: ValueOf, *, predictions: Variable, label: Variable, name: str
    ) -> None:
        super().__init__(value_of, label=label.name)
        self.name = name
        self._predictions = predictions
        self._labels = label

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        return BinaryMetric()

    @torch.no_grad()
    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add the probabilities of class 1."""
        assert isinstance(metric, BinaryMetric)
        predictions_BK = self._value_of(self._predictions, outputs, batch)
        labels_B = self._value_of(self._labels, outputs, batch).reshape(-1).to(torch.float32)
        check_binary(self.label, labels_B)
        metric.update(predictions_BK[:, -1], labels_B)


class ScalarTask(_MetricTask):
    """The mean of a variable of one number over all batches, weighted by their samples."""

    def __init__(self, value_of: ValueOf, variable: Variable) -> None:
        super().__init__(value_of, label="")
        self._variable = variable

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        return MeanMetric(self._variable.name)

    @torch.no_grad()
    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add the value of a batch."""
        assert isinstance(metric, MeanMetric)
        value = self._value_of(self._variable, outputs, batch)
        metric.update(value.reshape(1).repeat(batch.num_samples))
