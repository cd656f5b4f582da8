"""Counters on their way to other processes."""

import math

import numpy as np
import pytest
import torch

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import ModelError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.tasks.binary import BinaryTask
from fleetrec.tasks.scored import ScoredTask
from fleetrec.train.metrics import PassMetrics

NUM_SAMPLES = 2000  # more than are written as they are
TASKS = {
    "histograms": BinaryTask(label="click", prediction="probs"),
    "lists of samples": ScoredTask(
        label="click",
        metrics=[MetricOptions(name="auc"), MetricOptions(name="gauc", feature="user")],
    ),
}


def make_step(seed, num_samples=NUM_SAMPLES):
    rng = np.random.default_rng(seed)
    users_B = torch.from_numpy(rng.integers(0, 50, num_samples))
    ids = KeyedJagged(
        names=("user",),
        values_N=users_B,
        offsets=torch.arange(num_samples + 1),
        num_samples=num_samples,
    )
    clicks_B1 = torch.from_numpy(rng.integers(0, 2, (num_samples, 1))).to(torch.float32)
    logits_B = torch.from_numpy(rng.normal(size=num_samples).astype(np.float32))
    outputs = {"logits": logits_B, "probs": torch.sigmoid(logits_B)}
    return outputs, Batch(ids=ids, dense={"click": clicks_B1}, cursor=Cursor()), torch.tensor(0.5)


@pytest.mark.parametrize("task", TASKS)
def test_counters_of_several_workers_add_up_to_the_whole(task):
    whole = PassMetrics([TASKS[task]])
    workers = [PassMetrics([TASKS[task]]) for _ in range(3)]
    for seed in range(7):
        whole.count(*make_step(seed))
        workers[seed % 2].count(*make_step(seed))  # the third has no data
        if seed == 3:
            workers[0].end_interval()
    gathered = [worker.to_bytes() for worker in workers]
    expected = whole.values()
    for worker in workers:
        worker.load_merged(gathered)
        assert worker.values() == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("task", TASKS)
def test_a_step_is_counted_once_and_its_counters_are_those_of_this_step_alone(task):
    metrics, expected = PassMetrics([TASKS[task]]), PassMetrics([TASKS[task]])
    steps = [metrics.count_to_bytes(*make_step(seed)) for seed in range(4)]
    for seed in range(4):
        expected.count(*make_step(seed))
    assert metrics.values() == pytest.approx(expected.values(), rel=1e-12, nan_ok=True)
    some, expected = PassMetrics([TASKS[task]]), PassMetrics([TASKS[task]])
    some.add(steps[1:3])
    for seed in (1, 2):
        expected.count(*make_step(seed))
    assert some.values() == pytest.approx(expected.values(), rel=1e-12, nan_ok=True)


def test_histograms_are_encoded_without_their_zeros():
    metrics = PassMetrics([TASKS["histograms"]])
    assert len(metrics.count_to_bytes(*make_step(0, num_samples=100))) < 3000


@pytest.mark.parametrize("task", TASKS)
def test_a_checkpoint_holds_the_sum_of_all_processes_with_the_open_interval(task):
    whole = PassMetrics([TASKS[task]])
    workers = [PassMetrics([TASKS[task]]) for _ in range(2)]
    for seed in range(5):
        if seed == 3:
            for one in (whole, *workers):
                one.end_interval()
        whole.count(*make_step(seed))
        workers[seed % 2].count(*make_step(seed))
    before = workers[1].to_bytes()
    state = whole.merged_state([worker.state_bytes() for worker in workers])
    assert workers[1].to_bytes() == before  # saving moves nothing
    loaded = PassMetrics([TASKS[task]])
    loaded.load_state(state)
    assert loaded.end_interval() == pytest.approx(whole.end_interval(), rel=1e-12, nan_ok=True)
    assert loaded.values() == pytest.approx(whole.values(), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_an_error_and_not_counted(loss):
    metrics = PassMetrics([TASKS["histograms"]])
    outputs, batch, _ = make_step(0)
    with pytest.raises(ModelError, match=r"the loss is .* lower learning_rate"):
        metrics.count(outputs, batch, torch.tensor(loss))
    assert metrics.values()["SAMPLES"] == 0
