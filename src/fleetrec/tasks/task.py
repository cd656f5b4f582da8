"""What is learnt: a label, a loss, and the metrics that judge it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.tasks.metric import Metric

Outputs = Mapping[str, Tensor]


class Task(ABC):
    """One thing a model learns from one label; ``name`` tells its metrics from other tasks'."""

    name: str = ""
    label: str

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean loss of the batch."""

    @abstractmethod
    def new_metric(self) -> Metric:
        """Return an empty metric of this task."""

    @abstractmethod
    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch to a metric that ``new_metric`` made."""
