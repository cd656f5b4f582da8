"""A task whose evaluation also has AUC by group, such as users."""

from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.tasks.binary import BinaryTask
from fleetrec.tasks.group_auc import GroupAuc
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.task import Outputs, Task


class GroupedTask(Task):
    """A binary task with GAUC: the AUC of every group, weighted by its samples.

    The group of a sample is the one id that it has of ``feature``.
    """

    def __init__(self, task: BinaryTask, *, feature: str) -> None:
        self.name = task.name
        self.label = task.label
        self._task = task
        self._feature = feature

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss of the task."""
        return self._task.loss(outputs, batch)

    def new_metric(self) -> Metric:
        """Return empty metrics."""
        gauc = GroupAuc("GAUC", reduction="mean_by_sample_num")
        return MetricSet([self._task.new_metric(), gauc])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch to the metrics of the task and to GAUC."""
        assert isinstance(metric, MetricSet)
        plain, grouped = metric.metrics
        assert isinstance(grouped, GroupAuc)
        self._task.count(plain, outputs, batch)
        if self._feature not in batch.ids.names:
            raise DataError(
                f"gauc_slot: the data set has no sparse slot {self._feature!r}; known: "
                f"{', '.join(batch.ids.names)}"
            )
        groups_B = batch.ids[self._feature].values
        if len(groups_B) != batch.num_samples:
            raise DataError(f"gauc_slot: expected one id of {self._feature!r} in every sample")
        grouped.update(groups_B, self._task.prediction(outputs), batch.label(self.label))


def with_group_auc(task: Task, feature: str | None) -> Task:
    """Return a task with GAUC by a feature; tasks that are not binary have none."""
    if feature is None or not isinstance(task, BinaryTask):
        return task
    return GroupedTask(task, feature=feature)
