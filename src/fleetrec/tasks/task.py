"""The base class of tasks: a label, a loss, and metrics."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import ModelError
from fleetrec.tasks.metric import Metric

Outputs = Mapping[str, Tensor]


class Task(ABC):
    """What a model learns from one label; ``name`` is the prefix of its metrics.

    A task that compares candidates of a sample has no label: an empty name.
    """

    name: str = ""
    label: str

    def in_training(self) -> "Task":
        """Return the task with the metrics that are cheap enough to compute while training."""
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
    """Return one output of a model; raise an error if it is missing."""
    if name not in outputs:
        raise ModelError(f"the task needs an output {name!r}; the model returns {list(outputs)}")
    return outputs[name]
