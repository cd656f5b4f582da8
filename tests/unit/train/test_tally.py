"""Counters on their way to other processes."""

import numpy as np
import pytest
import torch

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.tasks.binary import BinaryTask
from fleetrec.tasks.scored import ScoredTask
from fleetrec.train.scoreboard import Scoreboard

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
def test_what_several_workers_bring_adds_up_to_the_whole(task):
    whole = Scoreboard([TASKS[task]])
    workers = [Scoreboard([TASKS[task]]) for _ in range(3)]
    for seed in range(7):
        whole.count(*make_step(seed))
        workers[seed % 2].count(*make_step(seed))  # the third has no data
        if seed == 3:
            workers[0].end_interval()
    brought = [worker.to_bytes() for worker in workers]
    expected = whole.figures()
    for worker in workers:
        worker.load_sum(brought)
        assert worker.figures() == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("task", TASKS)
def test_a_tally_holds_one_step_and_is_not_counted(task):
    scoreboard, expected = Scoreboard([TASKS[task]]), Scoreboard([TASKS[task]])
    tallied = [scoreboard.tally(*make_step(seed)) for seed in range(4)]
    scoreboard.add(tallied[1:3])
    for seed in (1, 2):
        expected.count(*make_step(seed))
    assert scoreboard.figures() == pytest.approx(expected.figures(), rel=1e-12, nan_ok=True)


def test_histograms_travel_without_their_zeros():
    scoreboard = Scoreboard([TASKS["histograms"]])
    assert len(scoreboard.tally(*make_step(0, num_samples=100))) < 3000
