"""Every task keeps the contract of ``Task``, and counts into the state of a pass."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from fleetrec.config.groups import MetricOptions
from fleetrec.config.losses import DistillationOptions, LossOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError, ModelError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.core.progress import Progress
from fleetrec.tasks.binary import BinaryTask
from fleetrec.tasks.choice import ChoiceTask
from fleetrec.tasks.conversion import ClickedTask, ConversionTask
from fleetrec.tasks.distillation import DistillationTask
from fleetrec.tasks.grouped import GroupedTask
from fleetrec.tasks.in_batch import InBatchTask
from fleetrec.tasks.pairwise import PairwiseTask
from fleetrec.tasks.scored import ScoredTask
from fleetrec.tasks.skip_gram import SkipGramTask
from fleetrec.tasks.task import Task
from fleetrec.tasks.vector_pairs import VectorPairsTask
from fleetrec.train.metric_journal import MetricJournal
from fleetrec.train.metrics import PassMetrics

LABEL = "target"
NUM_SAMPLES = 24
NUM_CLASSES = 3
AUC = MetricOptions(name="auc")
GAUC = MetricOptions(name="gauc", feature="user")
ERRORS = ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error")


def log_losses(x, labels):
    return np.logaddexp(0, x[:, 0]) - labels * x[:, 0]


def squared_losses(x, labels):
    return np.square(x[:, 0] - labels)


def softmax_losses(x, labels):
    return np.log(np.exp(x).sum(1)) - x[np.arange(len(x)), labels.astype(int)]


def own_item_losses(x, labels):
    return softmax_losses(x, np.arange(len(labels)))


def hinge_of_others(x, labels):
    own = x[np.arange(len(x)), labels.astype(int)]
    hinges = np.maximum(0, 0.5 - own[:, None] + x)
    return (hinges.sum(1) - 0.5) / (NUM_CLASSES - 1)


def hinge_of_first(x, labels):
    del labels
    return np.maximum(0, 0.5 - x[:, :1] + x[:, 1:]).mean(1)


def softmax_of_first(x, labels):
    return softmax_losses(x, np.zeros_like(labels))


def skip_gram_losses(x, labels):
    del labels
    return np.logaddexp(0, -x[:, 0]) + np.logaddexp(0, x[:, 1:]).sum(1)


def logits(task, x_BK):
    del task
    return {"logits": x_BK}


def candidates(task, x_BK):
    del task
    return {"vector": x_BK, "positive": x_BK[:, 0], "negatives": x_BK[:, 1:]}


def binary_outputs(task, x_BK):
    del task
    return {"logit": x_BK.squeeze(1), "predict": torch.sigmoid(x_BK.squeeze(1))}


def scored_outputs(task, x_BK):
    return task.outputs(x_BK)


def soft_outputs(task, x_BK):
    del task
    return {"y": x_BK.squeeze(1)}


def similarity(task, x_BK):
    del task
    return {"_similarity": x_BK}


@dataclasses.dataclass(frozen=True)
class Case:
    """A task, what a model returns for it, and its loss per sample as a formula."""

    task: Task
    outputs: Any
    losses: Any
    width: int = 1  # of what the model computes for a sample; 0: one number for every sample
    classes: int = 2  # of labels; 0: labels are numbers
    is_split_invariant: bool = True  # false where a sample is compared with those of its batch

    def x(self, num_samples, rng):
        return rng.normal(size=(num_samples, self.width or num_samples)).astype(np.float32)

    def labels(self, num_samples, rng):
        if self.classes:
            return rng.integers(0, self.classes, num_samples).astype(np.float32)
        return rng.normal(size=num_samples).astype(np.float32)


CASES = {
    "binary": Case(BinaryTask(label=LABEL), binary_outputs, log_losses),
    "named binary": Case(BinaryTask(label=LABEL, name="buy"), binary_outputs, log_losses),
    "grouped": Case(
        GroupedTask(BinaryTask(label=LABEL), feature="user"), binary_outputs, log_losses
    ),
    "scored": Case(
        ScoredTask(
            label=LABEL, metrics=[AUC, GAUC, *(MetricOptions(name=name) for name in ERRORS)]
        ),
        scored_outputs,
        log_losses,
    ),
    "named and weighted": Case(
        ScoredTask(label=LABEL, metrics=[AUC], name="buy", weight=0.25),
        scored_outputs,
        log_losses,
    ),
    "number": Case(
        ScoredTask(label=LABEL, loss="l2", metrics=[MetricOptions(name=name) for name in ERRORS]),
        scored_outputs,
        squared_losses,
        classes=0,
    ),
    "classes": Case(
        ScoredTask(
            label=LABEL,
            loss="softmax",
            num_class=NUM_CLASSES,
            metrics=[
                MetricOptions(name="accuracy"),
                MetricOptions(name="recall_at_topk", topk=2),
            ],
        ),
        scored_outputs,
        softmax_losses,
        width=NUM_CLASSES,
        classes=NUM_CLASSES,
    ),
    "soft label": Case(
        DistillationTask(
            DistillationOptions(name="kd", output="y", label=LABEL, loss=LossOptions(kind="l2"))
        ),
        soft_outputs,
        squared_losses,
        classes=0,
    ),
    "choice": Case(
        ChoiceTask(label=LABEL, num_classes=NUM_CLASSES, depths=[2]),
        logits,
        softmax_losses,
        width=NUM_CLASSES,
        classes=NUM_CLASSES,
    ),
    "choice by a hinge": Case(
        ChoiceTask(label=LABEL, num_classes=NUM_CLASSES, margin=0.5, num_negatives=2),
        logits,
        hinge_of_others,
        width=NUM_CLASSES,
        classes=NUM_CLASSES,
    ),
    "pairs": Case(PairwiseTask(margin=0.5, depth=2), candidates, hinge_of_first, width=3),
    "pairs by a softmax": Case(PairwiseTask(margin=None), candidates, softmax_of_first, width=3),
    "words": Case(SkipGramTask(), candidates, skip_gram_losses, width=4),
    "in batch": Case(
        InBatchTask(label=LABEL, metrics=[MetricOptions(name="recall_at_topk", topk=2)]),
        similarity,
        own_item_losses,
        width=0,
        is_split_invariant=False,
    ),
}

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_split_case = pytest.mark.parametrize(
    "case",
    [case for case in CASES.values() if case.is_split_invariant],
    ids=[name for name, case in CASES.items() if case.is_split_invariant],
)


def make_batch(labels, *, weights=None, users=None):
    num_samples = len(labels)
    return Batch(
        ids=KeyedJagged(
            names=("user",),
            values_N=torch.zeros(num_samples, dtype=torch.int64) if users is None else users,
            offsets=torch.arange(num_samples + 1),
            num_samples=num_samples,
        ),
        dense={LABEL: torch.tensor(labels).reshape(-1, 1)},
        cursor=Cursor(),
        weights_B=None if weights is None else torch.tensor(weights),
    )


@dataclasses.dataclass
class Step:
    """What a model has computed for one batch."""

    x: np.ndarray
    labels: np.ndarray
    batch: Batch
    outputs: dict

    def loss(self, task):
        return task.loss(self.outputs, self.batch)


def make_step(case, seed=0, *, num_samples=NUM_SAMPLES, weights=None, scale=1.0):
    rng = np.random.default_rng(seed)
    x = case.x(num_samples, rng) * np.float32(scale)
    labels = case.labels(num_samples, rng)
    users = torch.from_numpy(rng.integers(0, 4, num_samples))
    batch = make_batch(labels, weights=weights, users=users)
    outputs = case.outputs(case.task, torch.from_numpy(x))
    return Step(x=x, labels=labels, batch=batch, outputs=outputs)


def factor(case):
    return getattr(case.task, "weight", 1.0)


def all_tasks(kind=Task):
    return {one for sub in kind.__subclasses__() for one in (sub, *all_tasks(sub))}


# Tasks over several outputs, or over pairs of a batch; in unit/tasks.
TESTED_ELSEWHERE = {ClickedTask, ConversionTask, VectorPairsTask}


def test_every_task_has_a_case():
    known = {one for one in all_tasks() if one.__module__.startswith("fleetrec.tasks")}
    concrete = {one for one in known if not one.__name__.startswith("_")}
    assert concrete - TESTED_ELSEWHERE == {type(case.task) for case in CASES.values()}


@each_case
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_mean_of_a_plain_formula(case, seed):
    step = make_step(case, seed)
    expected = case.losses(step.x.astype(np.float64), step.labels).mean() * factor(case)
    assert float(step.loss(case.task)) == pytest.approx(expected, rel=1e-5)


@each_case
def test_samples_weigh_as_they_say_and_those_of_weight_0_do_not_count(case):
    weights = np.random.default_rng(1).choice([0.0, 0.5, 3.0], NUM_SAMPLES).astype(np.float32)
    step = make_step(case, weights=weights)
    losses = case.losses(step.x.astype(np.float64), step.labels)
    expected = (losses * weights).sum() / np.count_nonzero(weights) * factor(case)
    assert float(step.loss(case.task)) == pytest.approx(expected, rel=1e-5)


@each_case
def test_weights_of_1_change_nothing(case):
    weighted = make_step(case, weights=np.ones(NUM_SAMPLES, np.float32))
    expected = float(make_step(case).loss(case.task))
    assert float(weighted.loss(case.task)) == pytest.approx(expected, rel=1e-6)


@each_case
def test_a_batch_whose_weights_are_all_0_has_no_loss_and_no_gradient(case):
    step = make_step(case, weights=np.zeros(NUM_SAMPLES, np.float32))
    x = torch.from_numpy(step.x).requires_grad_()
    loss = case.task.loss(case.outputs(case.task, x), step.batch)
    loss.backward()
    assert loss.detach() == 0
    assert not x.grad.any()


@each_case
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_gradients_are_finite_also_where_a_model_is_certain(case, scale):
    step = make_step(case, scale=scale)
    x = torch.from_numpy(step.x).requires_grad_()
    loss = case.task.loss(case.outputs(case.task, x), step.batch)
    loss.backward()
    assert torch.isfinite(loss.detach())
    assert torch.isfinite(x.grad).all()
    if scale == 1.0:
        assert x.grad.any()


@each_case
def test_the_gradient_is_the_slope_of_the_formula(case):
    step = make_step(case, num_samples=5)
    x = torch.from_numpy(step.x).requires_grad_()
    case.task.loss(case.outputs(case.task, x), step.batch).backward()
    exact, small = step.x.astype(np.float64), 1e-6
    for row, column in np.ndindex(exact.shape):
        moved = [exact.copy(), exact.copy()]
        moved[0][row, column] -= small
        moved[1][row, column] += small
        low, high = (case.losses(one, step.labels).mean() * factor(case) for one in moved)
        assert float(x.grad[row, column]) == pytest.approx((high - low) / (2 * small), abs=1e-5)


@each_case
def test_a_missing_output_is_an_error_that_names_what_the_model_returns(case):
    step = make_step(case)
    with pytest.raises(ModelError, match=r"needs an output '.*'; the model returns \['other'\]"):
        case.task.loss({"other": torch.zeros(NUM_SAMPLES)}, step.batch)


@each_case
def test_the_label_is_the_declared_feature(case):
    assert case.task.label in (LABEL, "")
    if isinstance(case.task, InBatchTask) or not case.task.label:
        return  # every sample is a positive one, or has candidates and no label
    step = make_step(case)
    elsewhere = dataclasses.replace(step.batch, dense={"other": step.batch.dense[LABEL]})
    with pytest.raises(DataError, match=f"label '{LABEL}' is not among the features"):
        case.task.loss(step.outputs, dataclasses.replace(elsewhere, _labels={}))


@pytest.mark.parametrize("name", ["binary", "scored"])
def test_clicks_are_0_or_1(name):
    case = CASES[name]
    step = make_step(case)
    step.batch.dense[LABEL][3] = 0.5
    with pytest.raises(DataError, match=f"label '{LABEL}' must be 0 or 1, got 0.5"):
        case.task.count(case.task.new_metric(), step.outputs, step.batch)


def test_a_named_task_names_its_outputs():
    task = CASES["named and weighted"].task
    assert list(task.outputs(torch.zeros(2, 1))) == ["logits_buy", "probs_buy"]


def test_names_distinguish_the_metrics_of_tasks():
    cases = [CASES["binary"], CASES["named binary"]]
    metrics = PassMetrics([case.task for case in cases])
    step = make_step(cases[0])
    metrics.count(step.outputs, step.batch, torch.tensor(0.5))
    found = metrics.values()
    assert found["AUC"] == found["AUC_buy"]
    assert found["SAMPLES"] == found["SAMPLES_buy"] == NUM_SAMPLES


@pytest.mark.parametrize("name", ["binary", "scored", "named and weighted"])
def test_metrics_get_the_probabilities_that_the_loss_is_about(name):
    """So that what is evaluated is what was learned, and what a served model returns."""
    case = CASES[name]
    step = make_step(case)
    metric = case.task.new_metric()
    case.task.count(metric, step.outputs, step.batch)
    found = metric.compute()
    if name == "binary":
        expected = case.losses(step.x.astype(np.float64), step.labels).mean()
        assert found["LOGLOSS"] == pytest.approx(expected, rel=1e-4)
    else:
        x, labels = step.x[:, 0], step.labels
        pairs = [(p > n) + 0.5 * (p == n) for p in x[labels == 1] for n in x[labels == 0]]
        assert found["auc"] == pytest.approx(np.mean(pairs), abs=1e-3)


@each_case
def test_metrics_of_training_are_some_of_those_of_an_evaluation_with_the_same_loss(case):
    training = case.task.in_training()
    step = make_step(case)
    assert float(step.loss(training)) == float(step.loss(case.task))
    found = []
    for task in (training, case.task):
        metric = task.new_metric()
        task.count(metric, step.outputs, step.batch)
        found.append(metric.compute())
    cheap, everything = found
    assert cheap == pytest.approx({name: everything[name] for name in cheap}, nan_ok=True)
    assert everything.keys() - cheap.keys() <= {"gauc"}  # which keeps every sample
    assert "gauc" not in cheap


def passed(case, steps, metrics=None):
    metrics = metrics or PassMetrics([case.task])
    for step in steps:
        metrics.count(step.outputs, step.batch, step.loss(case.task))
    return metrics


def assert_same(found, expected):
    assert found.values() == pytest.approx(expected.values(), rel=1e-6, nan_ok=True)


@each_split_case
def test_a_pass_counts_batches_of_any_size_alike(case):
    whole = make_step(case)
    parts = []
    for rows in (slice(0, 1), slice(1, 17), slice(17, NUM_SAMPLES)):
        users = whole.batch.ids["user"].values[rows]
        x, labels = whole.x[rows], whole.labels[rows]
        outputs = case.outputs(case.task, torch.from_numpy(x))
        parts.append(Step(x, labels, make_batch(labels, users=users), outputs))
    assert_same(passed(case, parts), passed(case, [whole]))


@each_case
def test_a_pass_is_the_sum_over_workers_one_of_which_has_no_data(case):
    steps = [make_step(case, seed) for seed in range(4)]
    workers = [passed(case, steps[:1]), passed(case, steps[1:]), PassMetrics([case.task])]
    merged = PassMetrics([case.task])
    merged.load_merged([worker.to_bytes() for worker in workers])
    assert_same(merged, passed(case, steps))


@each_case
@pytest.mark.parametrize("closes", [False, True])
def test_a_pass_goes_on_from_a_checkpoint(case, closes):
    """Also with an interval that is open: its headline is printed later."""
    steps = [make_step(case, seed) for seed in range(4)]
    before, unbroken = passed(case, steps[:2]), passed(case, steps[:2])
    if closes:
        before.end_interval()
        unbroken.end_interval()
    resumed = PassMetrics([case.task])
    resumed.load_state(before.merged_state([before.state_bytes()]))
    passed(case, steps[2:], resumed)
    passed(case, steps[2:], unbroken)
    assert resumed.end_interval() == pytest.approx(unbroken.end_interval(), nan_ok=True)
    assert_same(resumed, unbroken)


@each_case
def test_a_pass_goes_on_from_a_journal(case, tmp_path):
    steps = [make_step(case, seed) for seed in range(4)]
    metrics = PassMetrics([case.task])
    journal = MetricJournal(tmp_path / "journal", metrics)
    progress = Progress()
    for step in steps[:3]:
        progress = progress.after_batch(Cursor())
        counters = metrics.count_to_bytes(step.outputs, step.batch, step.loss(case.task))
        journal.append(progress, counters, num_pending=0)
    journal.close()
    restarted = PassMetrics([case.task])
    journal = MetricJournal(tmp_path / "journal", restarted)
    journal.restore(dataclasses.replace(progress, step=2, batch=2))  # the last step comes again
    journal.close()
    passed(case, steps[2:], restarted)
    assert_same(restarted, passed(case, steps))


@each_case
def test_a_pass_without_samples_has_the_names_of_all_metrics(case):
    found = PassMetrics([case.task]).values()
    assert found.keys() == passed(case, [make_step(case)]).values().keys()
    assert math.isnan(found["LOSS"])
