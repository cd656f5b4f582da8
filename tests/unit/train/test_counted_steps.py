"""What a worker had counted when it died, and what the next process in its place counts."""

import contextlib
import dataclasses
import errno
import os

import numpy as np
import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.tasks.binary import BinaryTask
from fleetrec.train import counted_steps
from fleetrec.train.counted_steps import CountedSteps
from fleetrec.train.position import Position
from fleetrec.train.scoreboard import Scoreboard

NUM_SAMPLES = 4
NUM_STEPS = 6
BEGIN = Position(epoch=3, step=20)


class Worker:
    """Counts steps as a worker does, and may die at any time."""

    def __init__(self, path):
        self.scoreboard = Scoreboard([BinaryTask(label="click")])
        self.counted = CountedSteps(path, self.scoreboard)
        self.position = BEGIN

    def make_steps(self, last, *, num_waiting=0):
        while self.position.step < last:
            self.position = self.position.after_batch(Cursor())
            outputs, batch, loss = make_step(self.position.step)
            tally = self.scoreboard.tally(outputs, batch, loss)
            self.counted.note(self.position, tally, num_waiting=num_waiting)
            self.scoreboard.count(outputs, batch, loss)
        return self

    def take_up(self, position):
        self.position = position
        self.counted.take_up(position)
        return self

    def figures(self):
        return self.scoreboard.figures()


def make_step(number):
    rng = np.random.default_rng(number)
    clicks_B1 = torch.from_numpy(rng.integers(0, 2, (NUM_SAMPLES, 1))).to(torch.float32)
    outputs = {"predict": torch.from_numpy(rng.random(NUM_SAMPLES, np.float32))}
    none = torch.zeros(1, dtype=torch.int64)
    ids = KeyedJagged(names=(), values_N=none[:0], offsets=none, num_samples=NUM_SAMPLES)
    batch = Batch(ids=ids, dense={"click": clicks_B1}, cursor=Cursor())
    return outputs, batch, torch.tensor(rng.random())


def position_behind(num_steps):
    """Where servers remember that the worker was."""
    return dataclasses.replace(BEGIN, batch=num_steps, step=BEGIN.step + num_steps)


def check_equal(found, expected):
    assert (found["AUC"], found["SAMPLES"]) == (expected["AUC"], expected["SAMPLES"])
    assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.fixture
def start():
    """Starts workers, and closes their files at last."""
    with contextlib.ExitStack() as stack:

        def start(path):
            worker = Worker(path)
            stack.callback(worker.counted.close)
            return worker

        yield start


@pytest.fixture
def unbroken(tmp_path, start):
    """The figures of a worker that nobody kills."""
    return start(tmp_path / "unbroken").make_steps(BEGIN.step + NUM_STEPS).figures()


@pytest.mark.parametrize("num_kept", range(NUM_STEPS + 1))
def test_figures_do_not_show_a_death(tmp_path, start, unbroken, num_kept):
    path = tmp_path / "counted"
    start(path).make_steps(BEGIN.step + NUM_STEPS)  # the last of them never reached a server
    worker = start(path).take_up(position_behind(num_kept))
    check_equal(worker.make_steps(BEGIN.step + NUM_STEPS).figures(), unbroken)


def test_figures_do_not_show_many_deaths(tmp_path, start, unbroken):
    path = tmp_path / "counted"
    for last, recalled in [(2, 0), (3, 2), (5, 2), (5, 4)]:
        start(path).take_up(position_behind(recalled)).make_steps(BEGIN.step + last)
    worker = start(path).take_up(position_behind(5)).make_steps(BEGIN.step + NUM_STEPS)
    check_equal(worker.figures(), unbroken)


def test_a_step_that_was_being_written_is_not_counted(tmp_path, start, unbroken):
    path = tmp_path / "counted"
    start(path).make_steps(BEGIN.step + 4)
    os.truncate(path, path.stat().st_size - 1)
    worker = start(path).take_up(position_behind(3)).make_steps(BEGIN.step + NUM_STEPS)
    check_equal(worker.figures(), unbroken)


@pytest.mark.parametrize("num_waiting", [0, 2])
def test_a_long_file_is_folded_without_steps_that_may_come_again(
    tmp_path, start, monkeypatch, unbroken, num_waiting
):
    monkeypatch.setattr(counted_steps, "FOLD_BYTES", 1)
    path = tmp_path / "counted"
    start(path).make_steps(BEGIN.step + 5, num_waiting=num_waiting)
    num_recalled = 4 - num_waiting  # at worst: the last step, and those that waited before it
    worker = start(path).take_up(position_behind(num_recalled))
    check_equal(worker.make_steps(BEGIN.step + NUM_STEPS).figures(), unbroken)


def test_a_file_that_is_folded_stays_short(tmp_path, start, monkeypatch):
    path, folded = tmp_path / "counted", tmp_path / "folded"
    start(path).make_steps(BEGIN.step + 300)
    monkeypatch.setattr(counted_steps, "FOLD_BYTES", 20_000)
    start(folded).make_steps(BEGIN.step + 300)
    assert folded.stat().st_size < 40_000 < path.stat().st_size


def test_the_file_of_a_pass_is_replaced_by_the_next(tmp_path, start, unbroken):
    path = tmp_path / "counted"
    worker = start(path)
    worker.position = Position(epoch=2, step=BEGIN.step - 3)
    worker.make_steps(BEGIN.step)
    worker.position = BEGIN
    worker.make_steps(BEGIN.step + NUM_STEPS)
    check_equal(start(path).take_up(position_behind(NUM_STEPS)).figures(), unbroken)


def test_figures_about_fewer_samples_are_announced(tmp_path, start, caplog):
    worker = start(tmp_path / "lost").take_up(position_behind(2))
    assert "the figures of epoch 3 are about fewer samples" in caplog.text
    assert worker.make_steps(BEGIN.step + NUM_STEPS).figures()["SAMPLES"] == 4 * NUM_SAMPLES


def test_a_full_disk_does_not_stop_the_training(tmp_path, start, monkeypatch, caplog, unbroken):
    path = tmp_path / "counted"
    worker = start(path).make_steps(BEGIN.step + 2)

    class Full:
        def tell(self):
            return 0

        def write(self, _):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self):
            pass

    monkeypatch.setattr(worker.counted, "_stream", Full())
    check_equal(worker.make_steps(BEGIN.step + NUM_STEPS).figures(), unbroken)
    assert "No space left" in caplog.text
    assert not path.exists()
