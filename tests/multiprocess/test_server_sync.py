"""Workers that make every step together, over real servers."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from making import columns_of, make_job, make_slot_text, run, tables_of, tensors_of, write_job
from multiprocess.cluster import LocalCluster

NUM_STEPS = 200
BATCH = 8  # of one worker


def make_shared_data(folder, *, num_workers, num_steps=NUM_STEPS):
    """A file per worker, and the same samples as one process sees them, step by step."""
    lines = make_slot_text(num_workers * num_steps * BATCH).splitlines(keepends=True)
    steps = np.array(lines).reshape(num_steps, num_workers, BATCH)
    (folder / "shared").mkdir(parents=True)
    (folder / "alone").mkdir()
    for worker in range(num_workers):
        (folder / "shared" / f"part-{worker}").write_text("".join(steps[:, worker].flatten()))
    (folder / "alone" / "part-0").write_text("".join(steps.flatten()))


# What moves the network, and what moves rows if that is not the same.
OPTIMIZERS = {
    "adam": {"optimizer": {"class": "Adam", "learning_rate": 0.01}},
    "sgd": {"optimizer": {"class": "SGD", "learning_rate": 0.01}},
    "adagrad": {"optimizer": {"class": "Adagrad", "learning_rate": 0.01}},
    "two": {
        "optimizer": {"class": "Adam", "learning_rate": 0.01},
        "sparse_optimizer": {"class": "rowwise_adagrad", "learning_rate": 0.05, "clip_norm": 0.01},
    },
}


def make_cluster_job(folder, *, optimizer="adam", data="shared", batch_size=BATCH, epochs=1):
    job = make_job(folder / data, epochs=epochs, batch_size=batch_size)
    job["hyper_parameters"] |= OPTIMIZERS[optimizer]
    return write_job(job, folder / f"{data}.yaml")


def train(folder, job, *, num_workers, num_servers, mode="sync"):
    with LocalCluster(folder, num_workers=num_workers, num_servers=num_servers) as cluster:
        cluster.start_workers(job, mode=mode)
        cluster.wait()


@pytest.mark.parametrize(
    "optimizer",
    ["adam", "two", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sgd", "adagrad"))],
)
def test_two_workers_equal_one_with_twice_the_batch(tmp_path, monkeypatch, optimizer):
    make_shared_data(tmp_path, num_workers=2)
    job = make_cluster_job(tmp_path, optimizer=optimizer)
    train(tmp_path / "run", job, num_workers=2, num_servers=2)
    alone = tmp_path / "one"
    alone.mkdir()
    monkeypatch.chdir(alone)
    run(make_cluster_job(tmp_path, optimizer=optimizer, data="alone", batch_size=2 * BATCH))
    assert_close(tmp_path / "ckpt" / "0", alone / "ckpt" / "0")


def assert_close(ours, theirs, *, atol=1e-5):
    for name in ("learn/model", "learn/optimizer"):
        mine, other = (load_file(path / f"{name}.safetensors") for path in (ours, theirs))
        assert mine.keys() == other.keys()
        for key, value in mine.items():
            np.testing.assert_allclose(value, other[key], atol=atol, err_msg=key)
    for (_, name, mine), (_, _, other) in zip(tables_of(ours), tables_of(theirs), strict=True):
        expected = columns_of(other)
        for column, values in columns_of(mine).items():
            np.testing.assert_allclose(
                values, expected[column], atol=atol, err_msg=f"{name}: {column}"
            )


def test_two_runs_are_equal_to_the_last_bit(tmp_path):
    make_shared_data(tmp_path, num_workers=2, num_steps=40)
    job = make_cluster_job(tmp_path, epochs=2)
    found = []
    for attempt in range(2):
        train(tmp_path / f"run{attempt}", job, num_workers=2, num_servers=2)
        found.append(tensors_of(tmp_path / "ckpt" / "1"))
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_stopped_worker_is_waited_for_by_name(tmp_path):
    make_shared_data(tmp_path, num_workers=2)
    job = make_cluster_job(tmp_path)
    with LocalCluster(tmp_path / "run", num_workers=2, num_servers=1) as cluster:
        cluster.start_workers(job, mode="sync")
        metrics = tmp_path / "logs" / f"{tmp_path.name}.train" / "metrics.jsonl"
        cluster.wait_for(lambda: metrics.is_file() and metrics.read_text())
        cluster.pause(cluster.workers[1])
        cluster.wait_for(lambda: "waits for worker 1" in cluster.log_of("worker.0"))
        assert cluster.workers[0].poll() is None
        cluster.go_on(cluster.workers[1])
        cluster.wait()
    assert (tmp_path / "ckpt" / "0" / "MANIFEST.json").is_file()
