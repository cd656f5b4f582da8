"""Whole training runs of several workers, whose servers run in the test's own process."""

import contextlib
import functools
import shutil
from pathlib import Path

import pytest

from fleetrec.config.job import ClusterOptions
from fleetrec.core.place import Place
from fleetrec.train.run import Training
from fleetrec.train.run_folder import RunFolder
from making import make_data, make_job, write_job
from making_groups import together, worker_group
from making_training import BATCH_SIZE, RUN_ID, Recorder, decode_run, make_context
from unit.server.serving import serving

NUM_BATCHES = 6  # of a worker in a pass
CLUSTER = ClusterOptions(num_workers=2, strategy="sync")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_data(tmp_path / "data", num_samples=2 * NUM_BATCHES * BATCH_SIZE)
    job = make_job(data, epochs=1, batch_size=BATCH_SIZE, save_step_interval=2)
    job["runner"][0]["save_step_path"] = "steps"
    return decode_run(write_job(job, tmp_path / "config.yaml"))


class Worker:
    """One worker of a run; ``stop_at`` is its last step."""

    def __init__(self, run, endpoints, folder, *, rank, stop_at):
        place = Place(rank=rank, num_workers=2, server_endpoints=tuple(endpoints))
        self.recorder = Recorder()
        context = make_context(
            folder.path,
            self.recorder,
            should_stop=lambda: len(self.recorder.steps) == stop_at,
            journal=folder.metric_journal(place),
            peer_journals=folder.peer_journals(place),
        )
        self._training = Training(run, worker_group(endpoints, CLUSTER, index=rank), context)

    def train(self, *, resume):
        try:
            with contextlib.suppress(KeyboardInterrupt):
                self._training.run(resume=resume)
        finally:
            self._training.close(finished=False)
        return self.recorder


def train(run, servers, *, resume=False, stop_at=None):
    """Train with two workers and new servers; returns what each has recorded."""
    folder = RunFolder(path=Path("run"))
    folder.begin(RUN_ID, fresh=not resume)
    with serving(Path(servers), num_servers=2, num_workers=2) as endpoints:
        # One after the other: in one process they share the random numbers of first weights.
        workers = [Worker(run, endpoints, folder, rank=r, stop_at=stop_at) for r in (0, 1)]
        return together([functools.partial(worker.train, resume=resume) for worker in workers])


def metrics_of(recorder):
    (done,) = recorder.passes
    return done.metrics


def test_metrics_of_an_epoch_that_was_resumed_are_those_of_an_unbroken_one(run):
    unbroken = metrics_of(train(run, "servers.0")[0])
    assert unbroken["SAMPLES"] == 2 * NUM_BATCHES * BATCH_SIZE
    for folder in ("ckpt", "steps"):
        shutil.rmtree(folder)
    broken = train(run, "servers.1", stop_at=4)
    assert [len(recorder.steps) for recorder in broken] == [4, 4]
    assert not any(recorder.passes for recorder in broken)
    resumed = train(run, "servers.2", resume=True)
    assert [len(recorder.steps) for recorder in resumed] == [3, 3]  # the last checkpoint was at 3
    for recorder in resumed:
        assert metrics_of(recorder) == pytest.approx(unbroken, rel=1e-4, nan_ok=True)


def test_a_checkpoint_says_if_the_counters_of_a_worker_are_missing(run, caplog, monkeypatch):
    monkeypatch.setattr(RunFolder, "peer_journals", lambda *_: {1: Path("elsewhere/worker.1")})
    train(run, "servers", stop_at=4)
    assert "the metrics of epoch 0 lack the earlier samples of worker 1" in caplog.text
