"""Servers and workers that are killed at any moment, and a run that ends as if they were not."""

import time

import numpy as np
import pytest

from making import tensors_of
from multiprocess.cluster import LocalCluster
from multiprocess.test_server_sync import make_cluster_job, make_shared_data, train

NUM_STEPS = 100


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A job, and what it gives if nobody is killed."""
    folder = tmp_path_factory.mktemp("unbroken")
    make_shared_data(folder, num_workers=2, num_steps=NUM_STEPS)
    job = make_cluster_job(folder, epochs=3)
    train(folder / "run", job, num_workers=2, num_servers=2)
    return job, tensors_of(folder / "ckpt" / "2")


@pytest.mark.parametrize(
    ("seed", "max_kills"), [(0, 3), pytest.param(1, 15, marks=pytest.mark.slow)]
)
def test_killed_servers_and_workers_leave_no_trace(tmp_path, unbroken, seed, max_kills):
    job, expected = unbroken
    rng = np.random.default_rng(seed)
    num_kills = 0
    options = ["--snapshot-bytes", "40000"]  # many snapshots, so that some are hit
    with LocalCluster(tmp_path, num_workers=2, num_servers=2, server_options=options) as cluster:
        cluster.start_workers(job, mode="sync")
        cluster.wait_for(lambda: any((tmp_path / "held.0").glob("snapshot-*")))
        while num_kills < max_kills and not cluster.is_done():
            time.sleep(rng.uniform(0.0, 1.0))  # any moment: there is no condition to wait for
            index = int(rng.integers(2))
            if rng.random() < 0.6:
                cluster.kill_server(index)
                cluster.start_server(index)
            elif cluster.workers[index].poll() is None:
                cluster.kill_worker(index)
                cluster.start_worker(index, job, mode="sync")
            num_kills += 1
        cluster.wait()
    assert num_kills >= 2
    assert tensors_of(job.parent / "ckpt" / "2") == expected
