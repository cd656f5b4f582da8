"""Click or no click."""

# Shape suffixes: B samples.

from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch
from fleetrec.tasks.binary_metric import BinaryMetric
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.task import Outputs, Task


class BinaryTask(Task):
    """Learns P(label = 1) from a logit; the probability is judged by AUC and calibration."""

    def __init__(
        self, *, label: str, logit: str = "logit", prediction: str = "predict", name: str = ""
    ) -> None:
        self.label = label
        self.name = name
        self._logit = logit
        self._prediction = prediction

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean log loss."""
        return functional.binary_cross_entropy_with_logits(
            outputs[self._logit], batch.label(self.label)
        )

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        return BinaryMetric()

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add the probabilities of a batch."""
        assert isinstance(metric, BinaryMetric)
        metric.update(outputs[self._prediction], batch.label(self.label))
