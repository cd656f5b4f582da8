"""Workers that do not wait for each other."""

import time

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from fleetrec.cli.job import load_job
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.context import RunContext
from fleetrec.train.events import Observers
from fleetrec.train.run import Evaluation
from fleetrec.train.run_folder import RunFolder
from making import columns_of, make_data, make_job, run, tables_of, tensors_of, write_job
from multiprocess.cluster import LocalCluster

AUC_TOLERANCE = 0.003
BATCH_SIZE = 32


class LastMetrics:
    """Remembers the metrics of a pass."""

    def __init__(self):
        self.last = {}

    def pass_done(self, done):
        self.last = done.metrics

    def __getattr__(self, name):
        return lambda *_, **__: None


def make_learnable(folder, *, batch_size=BATCH_SIZE, **runner):
    data = make_data(folder / "data", num_samples=6000, num_files=2)
    job = make_job(data, epochs=4, batch_size=batch_size, **runner)
    job["train"] = {"strategy": {"mode": {"push_num": 10}}}
    job["mode"] = ["train", "infer"]
    return write_job(job, folder / "job.yaml")


def auc_of(job, checkpoint):
    """The AUC of a checkpoint, in a single process."""
    options = load_job(str(job), overrides=[f"runner.infer.init_model_path={checkpoint}"]).runs[1]
    metrics = LastMetrics()
    context = RunContext(
        clock=time.monotonic,
        run_id="one",
        folder=RunFolder(path=job.parent / "infer"),
        observer=Observers(metrics),
    )
    Evaluation(options, SoloGroup(torch.device("cpu")), context).run()
    return metrics.last["AUC"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process learns."""
    folder = tmp_path_factory.mktemp("alone")
    job = make_learnable(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(job, "mode=train")
    return auc_of(job, folder / "ckpt" / "3")


COMMUNICATORS = {
    "async ahead": {"pull_ahead": 1},
    "async": {"FLAGS_communicator_send_queue_size": 3, "FLAGS_communicator_max_merge_var_num": 2},
    "half_async": {"FLAGS_communicator_max_merge_var_num": 2},
    "geo": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMUNICATORS)
def test_workers_that_do_not_wait_learn_as_well(tmp_path, alone, name):
    mode = name.split()[0]
    # The local barrier of half_async makes one push of two batches: as large as those of others.
    batch_size = BATCH_SIZE // 2 if mode == "half_async" else BATCH_SIZE
    job = make_learnable(tmp_path, batch_size=batch_size, communicator=COMMUNICATORS[name])
    with LocalCluster(tmp_path / "run", num_workers=2, num_servers=2) as cluster:
        cluster.start_workers(job, mode=mode)
        cluster.wait()
    assert auc_of(job, tmp_path / "ckpt" / "3") == pytest.approx(alone, abs=AUC_TOLERANCE)


def test_half_async_of_one_worker_is_sync(tmp_path):
    found = {}
    for mode in ("sync", "half_async"):
        folder = tmp_path / mode
        data = make_data(folder / "data", num_samples=400)
        job = write_job(make_job(data, epochs=2), folder / "job.yaml")
        with LocalCluster(folder / "run", num_workers=1, num_servers=2) as cluster:
            cluster.start_workers(job, mode=mode)
            cluster.wait()
        found[mode] = tensors_of(folder / "ckpt" / "1")
    assert found["sync"] == found["half_async"]


def test_geo_of_one_worker_is_one_process(tmp_path, monkeypatch):
    data = make_data(tmp_path / "data", num_samples=400)
    job = make_job(data, epochs=2)
    job["train"] = {"strategy": {"mode": {"push_num": 3}}}
    for name in ("alone", "geo"):
        write_job(job, tmp_path / name / "job.yaml")
    monkeypatch.chdir(tmp_path / "alone")
    run(tmp_path / "alone" / "job.yaml")
    with LocalCluster(tmp_path / "run", num_workers=1, num_servers=2) as cluster:
        cluster.start_workers(tmp_path / "geo" / "job.yaml", mode="geo")
        cluster.wait()
    ours, theirs = (load_weights(tmp_path / name / "ckpt" / "1") for name in ("geo", "alone"))
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=1e-6, err_msg=name)


def test_a_worker_that_pulls_ahead_and_is_killed_trains_every_sample_once(tmp_path, monkeypatch):
    """A batch that a dead worker had only pulled for is trained by its successor."""
    data = make_data(tmp_path / "data", num_samples=3200)
    write_job(make_job(data, epochs=2), tmp_path / "alone" / "job.yaml")
    ahead = make_job(data, epochs=2, print_interval=1, communicator={"pull_ahead": 1})
    job = write_job(ahead, tmp_path / "ahead" / "job.yaml")
    monkeypatch.chdir(tmp_path / "alone")
    run(tmp_path / "alone" / "job.yaml")
    metrics = tmp_path / "ahead" / "logs" / "ahead.train" / "metrics.jsonl"
    with LocalCluster(tmp_path / "run", num_workers=2, num_servers=2) as cluster:
        cluster.start_workers(job, mode="async")
        for num_lines in (5, 30):
            cluster.wait_for(lambda num_lines=num_lines: load_lines(metrics) > num_lines)
            cluster.kill_worker(1)
            cluster.start_worker(1, job, mode="async")
        cluster.wait()
        assert "continues after step" in cluster.log_of("worker.1")
    ours, theirs = (load_weights(tmp_path / name / "ckpt" / "1") for name in ("ahead", "alone"))
    counted = [name for name in theirs if name.endswith("/shows")]
    assert counted
    for name in counted:
        assert np.array_equal(ours[name], theirs[name])


def load_weights(checkpoint):
    dense = load_file(checkpoint / "learn" / "model.safetensors")
    tables = {name: columns_of(stored) for _, name, stored in tables_of(checkpoint)}
    rows = {f"{name}/{c}": its[c] for name, its in tables.items() for c in ("ids", "rows", "shows")}
    return {**dense, **rows}


@pytest.mark.slow
def test_a_stopped_worker_holds_up_nobody_in_async(tmp_path):
    job = make_learnable(tmp_path)
    with LocalCluster(tmp_path / "run", num_workers=2, num_servers=1) as cluster:
        cluster.start_workers(job, mode="async")
        metrics = tmp_path / "logs" / f"{tmp_path.name}.train" / "metrics.jsonl"
        cluster.wait_for(lambda: load_lines(metrics) > 1)
        cluster.pause(cluster.workers[1])
        before = load_lines(metrics)
        cluster.wait_for(lambda: load_lines(metrics) > before)
        cluster.go_on(cluster.workers[1])
        cluster.wait()
    assert load_file(tmp_path / "ckpt" / "3" / "learn" / "model.safetensors")


def load_lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0
