"""What is learnt: a label, a loss, and metrics."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import ModelError
from fleetrec.tasks.metric import Metric

Outputs = Mapping[str, Tensor]


class Task(ABC):
    """One thing a model learns from one label; ``name`` tells its metrics from other tasks'."""

    name: str = ""
    label: str

    def in_training(self) -> "Task":
        """Return the task with the metrics that are counted while a model learns: cheap ones."""
        return self

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean loss of the batch."""

    @abstractmethod
    def new_metric(self) -> Metric:
        """Return an empty metric of this task."""

    @abstractmethod
    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch to a metric that ``new_metric`` made."""


def output_of(outputs: Outputs, name: str) -> Tensor:
    """Return one output of a model, which must be there."""
    if name not in outputs:
        raise ModelError(f"the task needs an output {name!r}; the model returns {list(outputs)}")
    return outputs[name]
