"""Binary classification, such as click prediction."""

# Shape suffixes: B samples.

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.tasks.binary_metric import BinaryMetric
from fleetrec.tasks.labels import check_binary
from fleetrec.tasks.losses import log_loss
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.task import Outputs, Task, output_of


class BinaryTask(Task):
    """Learns P(label = 1) from a logit; its metrics are AUC and calibration."""

    def __init__(
        self, *, label: str, logit: str = "logit", prediction: str = "predict", name: str = ""
    ) -> None:
        self.label = label
        self.name = name
        self._logit = logit
        self._prediction = prediction

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean log loss; with sample weights, over samples with a weight above 0."""
        logit_B = output_of(outputs, self._logit)
        return log_loss(logit_B, batch.label(self.label), batch.weights_B)

    def prediction(self, outputs: Outputs) -> Tensor:
        """Return the probabilities among the outputs of a model."""
        return output_of(outputs, self._prediction)

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        return BinaryMetric()

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add the probabilities of a batch."""
        assert isinstance(metric, BinaryMetric)
        labels_B = batch.label(self.label)
        check_binary(self.label, labels_B)
        metric.update(self.prediction(outputs), labels_B)
