"""Checkpoints of servers: written by any number of them, read by any other, or by one process."""

import pytest

from making import make_data, make_job, run, tensors_of, write_job
from multiprocess.cluster import LocalCluster
from multiprocess.test_server_sync import assert_close

MODEL = {"distributed_embedding": 1, "admission": {"kind": "count", "threshold": 2}}
EVICTION = {"max_rows": 90}


def make_growing(folder, *, epochs):
    data = folder / "data"
    if not data.exists():
        make_data(data, num_samples=300)
    job = make_job(data, epochs=epochs, batch_size=32)
    job["hyper_parameters"] |= {**MODEL, "eviction": EVICTION}
    return write_job(job, folder / "job.yaml")


def train(folder, name, job, *, num_servers, num_workers=1, resume=False):
    with LocalCluster(folder / name, num_workers=num_workers, num_servers=num_servers) as cluster:
        cluster.start_workers(job, mode="sync", extra=["resume"] if resume else [])
        cluster.wait()
        assert resume == ("resumed from" in cluster.log_of("worker.0"))


@pytest.mark.slow
def test_files_depend_on_the_number_of_servers_but_content_does_not(tmp_path):
    found = []
    for num_servers in (1, 3):
        folder = tmp_path / str(num_servers)
        job = make_growing(folder, epochs=2)
        train(folder, "run", job, num_servers=num_servers)
        found.append(tensors_of(folder / "ckpt" / "1"))
        files = list((folder / "ckpt" / "1" / "learn" / "tables").glob("*/*.snap"))
        assert len(files) == num_servers * len({file.parent for file in files})
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("second", [1, 3])
def test_a_run_goes_on_with_another_number_of_servers(tmp_path, second):
    straight = tmp_path / "straight"
    train(straight, "run", make_growing(straight, epochs=3), num_servers=2)
    split = tmp_path / "split"
    train(split, "run0", make_growing(split, epochs=2), num_servers=2)
    train(split, "run1", make_growing(split, epochs=3), num_servers=second, resume=True)
    assert tensors_of(split / "ckpt" / "2") == tensors_of(straight / "ckpt" / "2")


@pytest.mark.parametrize("first", ["servers", "alone"])
def test_servers_and_one_process_go_on_from_each_other(tmp_path, monkeypatch, first):
    data = make_data(tmp_path / "data", num_samples=300)
    for name in ("straight", "mixed"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "straight")
    run(write_job(make_job(data, epochs=2), tmp_path / "straight" / "job.yaml"))
    mixed = tmp_path / "mixed"
    monkeypatch.chdir(mixed)
    for epochs in (1, 2):
        job = write_job(make_job(data, epochs=epochs), mixed / "job.yaml")
        if (epochs == 1) == (first == "servers"):
            train(mixed, f"run{epochs}", job, num_servers=2, resume=epochs == 2)
        else:
            run(job, resume=epochs == 2)
    assert_close(mixed / "ckpt" / "1", tmp_path / "straight" / "ckpt" / "1")
