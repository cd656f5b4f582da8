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
from fleetrec.core.progress import Progress
from fleetrec.tasks.binary import BinaryTask
from fleetrec.train import metric_journal
from fleetrec.train.metric_journal import NUM_SEPARATE, MetricJournal, read_counters
from fleetrec.train.metrics import PassMetrics

NUM_SAMPLES = 4
NUM_STEPS = 6
BEGIN = Progress(pass_index=3, step=20)


class Worker:
    """Counts steps as a worker does, and may die at any time."""

    def __init__(self, path):
        self.metrics = PassMetrics([BinaryTask(label="click")])
        self.journal = MetricJournal(path, self.metrics)
        self.progress = BEGIN

    def make_steps(self, last, *, num_pending=0):
        while self.progress.step < last:
            self.progress = self.progress.after_batch(Cursor())
            outputs, batch, loss = make_step(self.progress.step)
            counters = self.metrics.count_to_bytes(outputs, batch, loss)
            self.journal.append(self.progress, counters, num_pending=num_pending)
        return self

    def restore(self, progress):
        self.progress = progress
        self.journal.restore(progress)
        return self

    def values(self):
        return self.metrics.values()


def make_step(number):
    rng = np.random.default_rng(number)
    clicks_B1 = torch.from_numpy(rng.integers(0, 2, (NUM_SAMPLES, 1))).to(torch.float32)
    outputs = {"predict": torch.from_numpy(rng.random(NUM_SAMPLES, np.float32))}
    none = torch.zeros(1, dtype=torch.int64)
    ids = KeyedJagged(names=(), values_N=none[:0], offsets=none, num_samples=NUM_SAMPLES)
    batch = Batch(ids=ids, dense={"click": clicks_B1}, cursor=Cursor())
    return outputs, batch, torch.tensor(rng.random())


def progress_after(num_steps):
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
            stack.callback(worker.journal.close)
            return worker

        yield start


@pytest.fixture
def unbroken(tmp_path, start):
    """The metrics of a worker that is never killed."""
    return start(tmp_path / "unbroken").make_steps(BEGIN.step + NUM_STEPS).values()


@pytest.mark.parametrize("num_kept", range(NUM_STEPS + 1))
def test_metrics_do_not_show_a_death(tmp_path, start, unbroken, num_kept):
    path = tmp_path / "journal"
    start(path).make_steps(BEGIN.step + NUM_STEPS)  # the last of them never reached a server
    worker = start(path).restore(progress_after(num_kept))
    check_equal(worker.make_steps(BEGIN.step + NUM_STEPS).values(), unbroken)


def test_metrics_do_not_show_many_deaths(tmp_path, start, unbroken):
    path = tmp_path / "journal"
    for last, recalled in [(2, 0), (3, 2), (5, 2), (5, 4)]:
        start(path).restore(progress_after(recalled)).make_steps(BEGIN.step + last)
    worker = start(path).restore(progress_after(5)).make_steps(BEGIN.step + NUM_STEPS)
    check_equal(worker.values(), unbroken)


def test_a_step_that_was_being_written_is_not_counted(tmp_path, start, unbroken):
    path = tmp_path / "journal"
    start(path).make_steps(BEGIN.step + 4)
    os.truncate(path, path.stat().st_size - 1)
    worker = start(path).restore(progress_after(3)).make_steps(BEGIN.step + NUM_STEPS)
    check_equal(worker.values(), unbroken)


@pytest.mark.parametrize("num_pending", [0, 2])
def test_a_long_file_is_compacted_without_steps_that_may_come_again(
    tmp_path, start, monkeypatch, unbroken, num_pending
):
    monkeypatch.setattr(metric_journal, "COMPACT_BYTES", 1)
    monkeypatch.setattr(metric_journal, "NUM_SEPARATE", 0)
    path = tmp_path / "journal"
    start(path).make_steps(BEGIN.step + 5, num_pending=num_pending)
    num_recalled = 4 - num_pending  # at worst: the last step, and those that waited before it
    worker = start(path).restore(progress_after(num_recalled))
    check_equal(worker.make_steps(BEGIN.step + NUM_STEPS).values(), unbroken)


def test_a_file_that_is_compacted_stays_short(tmp_path, start, monkeypatch):
    path, compacted = tmp_path / "journal", tmp_path / "compacted"
    start(path).make_steps(BEGIN.step + 300)
    monkeypatch.setattr(metric_journal, "COMPACT_BYTES", 20_000)
    worker = start(compacted).make_steps(BEGIN.step + 300)
    assert compacted.stat().st_size < 60_000 < path.stat().st_size
    for step in range(NUM_SEPARATE):  # the chief may save at any of the last steps
        at = dataclasses.replace(worker.progress, step=worker.progress.step - step)
        assert read_counters(compacted, at) != []


def test_the_file_of_a_pass_is_replaced_by_the_next(tmp_path, start, unbroken):
    path = tmp_path / "journal"
    worker = start(path)
    worker.progress = Progress(pass_index=2, step=BEGIN.step - 3)
    worker.make_steps(BEGIN.step)
    worker.progress = BEGIN
    worker.make_steps(BEGIN.step + NUM_STEPS)
    check_equal(start(path).restore(progress_after(NUM_STEPS)).values(), unbroken)


def test_metrics_about_fewer_samples_are_announced(tmp_path, start, caplog):
    worker = start(tmp_path / "lost").restore(progress_after(2))
    assert "the metrics of epoch 3 are about fewer samples" in caplog.text
    assert worker.make_steps(BEGIN.step + NUM_STEPS).values()["SAMPLES"] == 4 * NUM_SAMPLES


def test_a_full_disk_does_not_stop_the_training(tmp_path, start, monkeypatch, caplog, unbroken):
    path = tmp_path / "journal"
    worker = start(path).make_steps(BEGIN.step + 2)
    stream = worker.journal._stream

    class Full:
        def tell(self):
            return 0

        def write(self, _):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self):
            stream.close()

    monkeypatch.setattr(worker.journal, "_stream", Full())
    check_equal(worker.make_steps(BEGIN.step + NUM_STEPS).values(), unbroken)
    assert "No space left" in caplog.text
    assert not path.exists()


def test_the_chief_reads_what_a_worker_has_counted_up_to_a_step(tmp_path, start):
    worker = start(tmp_path / "a").make_steps(26)
    at = dataclasses.replace(worker.progress, step=23)
    whole = PassMetrics([BinaryTask(label="click")])
    whole.add(read_counters(tmp_path / "a", at))
    expected = start(tmp_path / "b").make_steps(23).values()
    assert whole.values() == pytest.approx(expected, nan_ok=True)


def test_counters_that_do_not_reach_a_step_are_none(tmp_path, start):
    worker = start(tmp_path / "a").make_steps(23)
    assert read_counters(tmp_path / "a", dataclasses.replace(worker.progress, step=24)) == []
    assert read_counters(tmp_path / "a", dataclasses.replace(worker.progress, pass_index=4)) == []
    assert read_counters(tmp_path / "missing", worker.progress) == []


def test_what_a_checkpoint_held_outlives_the_process_that_has_loaded_it(tmp_path, start):
    first = start(tmp_path / "a").make_steps(23)
    resumed = start(tmp_path / "b")
    resumed.metrics.load_merged([first.metrics.to_bytes()])
    resumed.progress = first.progress
    resumed.journal.begin(first.progress)
    resumed.make_steps(25)
    restarted = start(tmp_path / "b").restore(resumed.progress)
    expected = start(tmp_path / "c").make_steps(25).values()
    assert restarted.values() == pytest.approx(expected, nan_ok=True)


def test_a_new_run_begins_without_the_counters_of_an_earlier_one(tmp_path, start):
    start(tmp_path / "a").make_steps(23)
    start(tmp_path / "a").journal.begin(BEGIN)
    assert not (tmp_path / "a").exists()
