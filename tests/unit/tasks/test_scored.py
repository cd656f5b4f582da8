import pytest
import torch

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.tasks.group_auc import GroupAuc
from fleetrec.tasks.in_batch import InBatchTask
from fleetrec.tasks.scored import ScoredTask

USERS = torch.tensor([1] * 5 + [2] * 4)
SCORES = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.9, 0.8, 0.7, 0.6])
LABELS = torch.tensor([1, 0, 1, 1, 0, 1, 0, 0, 1])


def make_batch(labels, *, users=None):
    num_samples = len(labels)
    ids = torch.zeros(num_samples, dtype=torch.int64) if users is None else users
    return Batch(
        ids=KeyedJagged(
            names=("group:user",),
            values_N=ids,
            offsets=torch.arange(num_samples + 1),
            num_samples=num_samples,
        ),
        dense={"label": torch.tensor(labels, dtype=torch.float32).reshape(-1, 1)},
        cursor=Cursor(),
    )


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("mean", 0.5833333),
        ("mean_by_sample_num", 0.5925926),
        ("mean_by_positive_num", 0.6),
    ],
)
def test_auc_within_users_is_averaged(reduction, expected):
    metric = GroupAuc("gauc", reduction=reduction)
    metric.update(USERS, SCORES, LABELS)
    assert metric.compute() == {"gauc": pytest.approx(expected, abs=1e-6)}


def test_auc_within_users_is_exact_over_batches_in_any_order():
    whole, first, second = (GroupAuc("gauc", reduction="mean") for _ in range(3))
    order = torch.tensor([8, 0, 5, 3, 2, 7, 1, 6, 4])
    whole.update(USERS, SCORES, LABELS)
    first.update(USERS[order[:4]], SCORES[order[:4]], LABELS[order[:4]])
    second.update(USERS[order[4:]], SCORES[order[4:]], LABELS[order[4:]])
    first.merge(second)
    assert first.compute() == whole.compute()
    resumed = GroupAuc("gauc", reduction="mean")
    resumed.load(first.counters())
    assert resumed.compute() == whole.compute()


def test_users_of_one_class_do_not_count_and_ties_count_half():
    metric = GroupAuc("gauc", reduction="mean")
    metric.update(
        torch.tensor([1, 1, 2, 2]), torch.tensor([0.5, 0.5, 0.1, 0.9]), torch.tensor([1, 0, 1, 1])
    )
    assert metric.compute() == {"gauc": 0.5}
    nobody = GroupAuc("gauc", reduction="mean")
    nobody.update(torch.tensor([2, 2]), torch.tensor([0.1, 0.9]), torch.tensor([1, 1]))
    assert nobody.compute() == {"gauc": 0.0}


def figures(task, logits, batches):
    metric = task.new_metric()
    for logit, batch in zip(logits, batches, strict=True):
        task.count(metric, task.outputs(logit), batch)
    return metric.compute()


def test_errors_of_numbers_are_means_over_all_samples():
    names = ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error")
    metrics = [MetricOptions(name=name) for name in names]
    task = ScoredTask(label="label", loss="l2", metrics=metrics)
    found = figures(
        task,
        [torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([[0.0]])],
        [make_batch([1, 4, 3]), make_batch([1])],
    )
    assert found["mean_absolute_error"] == pytest.approx((0 + 2 + 3 + 1) / 4)
    assert found["mean_squared_error"] == pytest.approx((4 + 9 + 1) / 4)
    assert found["root_mean_squared_error"] == pytest.approx(3.5**0.5)
    assert found["loss/loss/l2_loss"] == pytest.approx(3.5)


def test_classes_have_accuracy_and_recall():
    metrics = [MetricOptions(name="accuracy"), MetricOptions(name="recall_at_topk", topk=2)]
    task = ScoredTask(label="label", loss="softmax", num_class=3, metrics=metrics)
    logits = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    found = figures(task, [logits[:3], logits[3:]], [make_batch([0, 1, 2]), make_batch([2])])
    assert found["accuracy"] == pytest.approx(2 / 4)
    assert found["recall@2"] == pytest.approx(3 / 4)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 2]))
    assert found["loss/loss/softmax_cross_entropy_loss"] == pytest.approx(float(expected))


def test_an_item_is_found_among_those_of_its_batch():
    task = InBatchTask(label="label", metrics=[MetricOptions(name="recall_at_topk", topk=1)])
    metric = task.new_metric()
    similarity = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 0.0, 3.0]])
    task.count(metric, {"_similarity": similarity}, make_batch([1, 1, 1]))
    assert metric.compute()["recall@1"] == pytest.approx(2 / 3)


def test_metrics_that_keep_every_sample_are_left_out_of_training():
    metrics = [MetricOptions(name="auc"), MetricOptions(name="gauc", feature="group:user")]
    task = ScoredTask(label="label", metrics=metrics)
    logit, batch = torch.tensor([[0.5], [0.1]]), make_batch([1, 0], users=torch.tensor([4, 4]))
    assert "gauc" in figures(task, [logit], [batch])
    assert figures(task.in_training(), [logit], [batch]).keys() == {
        "auc",
        "loss/loss/cross_entropy_loss",
    }


def test_a_metric_that_does_not_fit_the_loss_is_refused():
    with pytest.raises(ValueError, match="metric auc needs a loss of one class"):
        ScoredTask(label="label", loss="l2", metrics=[MetricOptions(name="auc")])


def test_a_label_beyond_the_classes_is_bad_data():
    task = ScoredTask(label="label", loss="softmax", num_class=2)
    with pytest.raises(DataError, match="label 'label' must be a class from 0 to 1, got 2"):
        task.loss(task.outputs(torch.zeros(1, 2)), make_batch([2]))
