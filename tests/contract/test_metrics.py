"""Every metric keeps the contract of ``Metric``, and its state that of a run.

A metric is exact: it does not matter how samples are split into batches, over workers or by a
restart, nor in which order they come. Its figures are those of a plain formula over all samples.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from fleetrec.tasks.binary_metric import NUM_BUCKETS, BinaryMetric
from fleetrec.tasks.confusion import ThresholdMetric
from fleetrec.tasks.group_auc import GroupAuc
from fleetrec.tasks.mean_metric import MeanMetric
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.pairwise import PosNegRatio
from fleetrec.tasks.ranking import RankingMetric
from fleetrec.tasks.scored import NamedAuc
from reference.binary_metric import bucket_error, pair_auc

NUM_SAMPLES = 120
NUM_USERS = 7


@dataclasses.dataclass(frozen=True)
class Samples:
    """What is known of samples, as arrays of one length."""

    predictions: np.ndarray
    labels: np.ndarray
    users: np.ndarray

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        return Samples(*(getattr(self, f.name)[rows] for f in dataclasses.fields(self)))

    def tensors(self):
        return tuple(torch.from_numpy(getattr(self, f.name)) for f in dataclasses.fields(self))


def make_samples(seed=0, num_samples=NUM_SAMPLES):
    """Return samples with ties, whose predictions lie in the middle of the steps of a histogram."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 40, num_samples) * (NUM_BUCKETS // 40)
    return Samples(
        predictions=((steps + 0.5) / NUM_BUCKETS).astype(np.float32),
        labels=rng.integers(0, 2, num_samples).astype(np.float32),
        users=rng.integers(-3, NUM_USERS - 3, num_samples),
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A metric, how samples are added to it, and the formula of its figures."""

    make: Callable[[], Any]
    add: Callable[[Any, Samples], None]
    formula: Callable[[Samples], Mapping[str, float]]
    empty: float = math.nan  # the figures of no samples, but their number
    one_class: float | None = None  # of every figure; None: as the formula says


def add_binary(metric, samples):
    predictions_B, labels_B, _ = samples.tensors()
    metric.update(predictions_B, labels_B)


def add_groups(metric, samples):
    predictions_B, labels_B, users_B = samples.tensors()
    metric.update(users_B, predictions_B, labels_B)


def add_errors(metric, samples):
    predictions_B, labels_B, _ = samples.tensors()
    metric.update((predictions_B - labels_B).square())


def add_set(metric, samples):
    add_binary(metric.metrics[0], samples)
    add_errors(metric.metrics[1], samples)
    add_groups(metric.metrics[2], samples)


def binary_formula(samples):
    p, y = samples.predictions.astype(np.float64), samples.labels
    error = p - y
    return {
        "AUC": pair_auc(p.tolist(), y.tolist()),
        "LOGLOSS": -np.mean(np.log(np.where(y == 1, p, 1 - p))),
        "ACTUAL_CTR": y.mean(),
        "PREDICTED_CTR": p.mean(),
        "COPC": y.mean() / p.mean(),
        "MAE": np.abs(error).mean(),
        "RMSE": np.sqrt(np.square(error).mean()),
        "BUCKET_ERROR": bucket_error(p.tolist(), y.tolist()),
        "SAMPLES": len(samples),
    }


def auc_formula(samples):
    return {"auc": pair_auc(samples.predictions.tolist(), samples.labels.tolist())}


def root_formula(samples):
    return {"rmse": np.sqrt(np.square(samples.predictions - samples.labels).mean())}


def mean_formula(samples):
    return {"mse": np.square(samples.predictions - samples.labels).mean()}


def group_formula(weigh):
    """Return the mean of the AUC of users with both classes, each with a weight."""

    def formula(samples):
        found = []
        for user in np.unique(samples.users):
            own = samples.take(samples.users == user)
            auc = pair_auc(own.predictions.tolist(), own.labels.tolist())
            if not math.isnan(auc):
                found.append((auc, weigh(own)))
        total = sum(weight for _, weight in found)
        return {"gauc": sum(auc * weight for auc, weight in found) / total if total else 0.0}

    return formula


def group_auc(reduction):
    return lambda: GroupAuc("gauc", reduction=reduction)


def make_set():
    return MetricSet([NamedAuc(), MeanMetric("mse"), GroupAuc("gauc", reduction="mean")])


def set_formula(samples):
    mean = group_formula(lambda own: 1)
    return {**auc_formula(samples), **mean_formula(samples), **mean(samples)}


def decisions(samples, threshold):
    """Return hits, chosen samples and positives at a threshold."""
    chosen = samples.predictions > threshold
    return (chosen & (samples.labels == 1)).sum(), chosen.sum(), (samples.labels == 1).sum()


def precision_formula(samples):
    hits, chosen, _ = decisions(samples, 0.5)
    return {"precision": hits / chosen if chosen else math.nan}


def recall_formula(samples):
    hits, _, positive = decisions(samples, 0.5)
    return {"recall": hits / positive if positive else math.nan}


def max_f1_formula(samples):
    f1 = []
    for threshold in (-1e-7, *(np.arange(1, 199) / 199), 1 + 1e-7):
        hits, chosen, positive = decisions(samples, threshold)
        f1.append(2 * hits / (chosen + positive) if chosen + positive else 0.0)
    return {"max_f1": max(f1)}


# Over scores of several items of a sample; in unit/tasks/test_ranking.py.
TESTED_ELSEWHERE = {PosNegRatio, RankingMetric}
CASES = {
    "precision": Case(lambda: ThresholdMetric("precision"), add_binary, precision_formula),
    "recall": Case(lambda: ThresholdMetric("recall"), add_binary, recall_formula),
    "max f1": Case(lambda: ThresholdMetric("max_f1"), add_binary, max_f1_formula, empty=0.0),
    "binary": Case(BinaryMetric, add_binary, binary_formula),
    "auc": Case(NamedAuc, add_binary, auc_formula, one_class=math.nan),
    "mean": Case(lambda: MeanMetric("mse"), add_errors, mean_formula),
    "root of a mean": Case(lambda: MeanMetric("rmse", is_root=True), add_errors, root_formula),
    "gauc": Case(group_auc("mean"), add_groups, group_formula(lambda own: 1), one_class=0.0),
    "gauc by samples": Case(
        group_auc("mean_by_sample_num"), add_groups, group_formula(len), one_class=0.0
    ),
    "gauc by positives": Case(
        group_auc("mean_by_positive_num"),
        add_groups,
        group_formula(lambda own: own.labels.sum()),
        one_class=0.0,
    ),
    "set": Case(make_set, add_set, set_formula),
}

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
# Sizes of batches, which add up to all samples: one, single samples at the ends, an empty one.
SPLITS = ([NUM_SAMPLES], [1, 50, 0, 60, 8, 1], [40, 40, 40])


def split(samples, sizes):
    assert sum(sizes) == len(samples)
    ends = np.cumsum([0, *sizes])
    return [samples.take(slice(a, b)) for a, b in itertools.pairwise(ends)]


def counted(case, *batches):
    metric = case.make()
    for batch in batches:
        case.add(metric, batch)
    return metric


def assert_same(found, expected):
    assert found.compute() == pytest.approx(expected.compute(), rel=1e-12, nan_ok=True)
    assert found.headline() == pytest.approx(expected.headline(), rel=1e-12, nan_ok=True)


def all_metrics(kind=Metric):
    return {one for sub in kind.__subclasses__() for one in (sub, *all_metrics(sub))}


def test_every_metric_has_a_case():
    made = {type(case.make()) for case in CASES.values()}
    found = {one for one in all_metrics() if one.__module__.startswith("fleetrec.")}
    assert found - TESTED_ELSEWHERE == made


@each_case
@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_a_plain_formula(case, seed):
    samples = make_samples(seed)
    found = counted(case, samples).compute()
    assert found == pytest.approx(case.formula(samples), rel=1e-5, nan_ok=True)


@each_case
@pytest.mark.parametrize("sizes", SPLITS, ids=str)
def test_batches_of_any_size_count_alike(case, sizes):
    samples = make_samples()
    assert_same(counted(case, *split(samples, sizes)), counted(case, samples))


@each_case
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]], ids=str)
def test_merged_parts_of_workers_are_the_whole_in_any_order(case, order):
    samples = make_samples()
    parts = split(samples, [1, 0, NUM_SAMPLES - 1])
    workers = [counted(case, part) for part in parts]
    before = workers[2].compute()
    merged = case.make()
    for index in order:
        merged.merge(workers[index])
    assert_same(merged, counted(case, samples))
    case.add(merged, samples)  # what was merged belongs to no worker any more
    assert workers[2].compute() == pytest.approx(before, rel=0, nan_ok=True)


@each_case
def test_the_order_of_samples_does_not_matter(case):
    samples = make_samples()
    shuffled = samples.take(np.random.default_rng(5).permutation(NUM_SAMPLES))
    assert_same(counted(case, shuffled), counted(case, samples))


@each_case
def test_a_metric_goes_on_from_its_counters(case):
    first, second = split(make_samples(), [70, 50])
    saved = {name: value.clone() for name, value in counted(case, first).counters().items()}
    resumed = counted(case, make_samples(seed=9))  # which loading replaces
    resumed.load(saved)
    case.add(resumed, second)
    assert_same(resumed, counted(case, first, second))


@each_case
def test_a_metric_that_was_reset_is_a_new_one(case):
    samples = make_samples()
    metric = counted(case, make_samples(seed=9))
    metric.reset()
    case.add(metric, samples)
    assert_same(metric, counted(case, samples))


@each_case
def test_no_samples_have_defined_figures_of_the_same_names(case):
    found = dict(case.make().compute())
    assert found.keys() == counted(case, make_samples()).compute().keys()
    assert found.pop("SAMPLES", 0) == 0
    assert list(found.values()) == pytest.approx([case.empty] * len(found), nan_ok=True)


@each_case
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_samples_of_one_class_have_defined_figures(case, label):
    samples = make_samples()
    samples = dataclasses.replace(samples, labels=np.full(NUM_SAMPLES, label, np.float32))
    expected = case.formula(samples)
    if case.one_class is not None:
        expected = dict.fromkeys(expected, case.one_class)
    found = counted(case, samples).compute()
    assert found == pytest.approx(expected, rel=1e-5, nan_ok=True)


@each_case
def test_headlines_are_among_the_figures(case):
    metric = counted(case, make_samples())
    figures = metric.compute()
    assert metric.headline().items() <= figures.items()


@each_case
def test_reading_figures_changes_nothing(case):
    metric = counted(case, make_samples())
    before = {name: value.clone() for name, value in metric.counters().items()}
    metric.compute()
    metric.headline()
    after = metric.counters()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@each_case
def test_counters_hold_no_graph(case):
    samples = make_samples()
    learned = torch.from_numpy(samples.predictions).requires_grad_()
    held = dataclasses.replace(samples, predictions=learned)
    object.__setattr__(held, "tensors", lambda: (learned, *samples.tensors()[1:]))
    metric = counted(case, held)
    assert not any(counter.requires_grad for counter in metric.counters().values())
