"""Processes with the environment of other launchers find each other, or are refused."""

import json
import os
import subprocess
import sys

import pytest

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.core.env import environment_with
from fleetrec.launch.ports import reserved_endpoints
from making import make_data, make_job, write_job
from making_pipelines import WIDE_AND_DEEP, model_config, write_data, write_pipeline

pytestmark = pytest.mark.multiprocess

MODEL = model_config("FM", "fm { }", groups=WIDE_AND_DEEP)
NUM_STEPS = 6
ADAM = """
optimizer_config {
  adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.01 } } }
}
"""
TRAIN = (sys.executable, "-m", "fleetrec.train_eval", "--pipeline_config_path", "pipeline.config")
LOCAL = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=640, num_eval=100)


def make_folder(folder, paths, *, strategy):
    folder.mkdir(exist_ok=True)
    write_pipeline(
        folder,
        MODEL,
        paths=paths,
        num_steps=NUM_STEPS,
        train_config=f"{ADAM} train_distribute: {strategy}",
    )
    return folder


def run_all(folder, environments, command=TRAIN):
    """Start a process with each environment; returns their statuses and outputs."""
    processes = [
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment_with({**LOCAL, **variables}, unless_set={}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for variables in environments
    ]
    try:
        outputs = [process.communicate(timeout=200)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], outputs


def weights(folder):
    checkpoint = open_folder(folder / f"model/model.ckpt-{NUM_STEPS}", kind="checkpoint")
    tensors = read_tensors(checkpoint, "model")["model"]
    return {name: tensor.tolist() for name, tensor in tensors.items()}


@pytest.fixture(scope="module")
def by_our_launcher(tmp_path_factory, paths):
    """The weights of two ranks that our own launcher has started."""
    folder = make_folder(tmp_path_factory.mktemp("ours"), paths, strategy="HorovodStrategy")
    statuses, outputs = run_all(folder, [{}], (*TRAIN, "--num_workers", "2"))
    assert statuses == [0], outputs
    return weights(folder)


def tf_config(task, index=0, **cluster):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": task, "index": index}})}


def mpirun(rank):
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "PMIX_NAMESPACE": f"test-{os.getpid()}",
    }


def horovodrun(rank):
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": "2",
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(os.getpid()),
    }


@pytest.mark.parametrize(
    ("strategy", "variables"),
    [
        ("HorovodStrategy", mpirun),
        pytest.param("HorovodStrategy", horovodrun, marks=pytest.mark.slow),
    ],
)
def test_ranks_of_other_launchers_train_together(
    tmp_path, paths, by_our_launcher, strategy, variables
):
    folder = make_folder(tmp_path, paths, strategy=strategy)
    statuses, outputs = run_all(folder, [variables(rank) for rank in range(2)])
    assert statuses == [0, 0], outputs
    assert weights(folder) == by_our_launcher


def test_a_chief_and_a_worker_of_tensorflow_without_ps_train_together(
    tmp_path, paths, by_our_launcher
):
    folder = make_folder(tmp_path, paths, strategy="NoStrategy")
    with reserved_endpoints(["127.0.0.1:0"] * 2, own=(0, 1)) as (chief, worker):
        cluster = {"chief": [chief], "worker": [worker]}
        tasks = [tf_config("chief", **cluster), tf_config("worker", **cluster)]
        statuses, outputs = run_all(folder, tasks)
    assert statuses == [0, 0], outputs
    assert weights(folder) == by_our_launcher


def test_a_ps_of_tensorflow_is_a_server(tmp_path, paths):
    folder = make_folder(tmp_path, paths, strategy="NoStrategy")
    with reserved_endpoints(["127.0.0.1:0"] * 2, own=(0, 1)) as (chief, ps):
        cluster = {"chief": [chief], "ps": [ps]}
        statuses, outputs = run_all(
            folder, [tf_config("chief", **cluster), tf_config("ps", **cluster)]
        )
    assert statuses == [0, 0], outputs
    assert f"server 0 of 1 serves on {ps}" in outputs[1]
    assert (folder / f"model/model.ckpt-{NUM_STEPS}/MANIFEST.json").is_file()


def test_a_runner_of_one_process_is_refused_under_mpirun(tmp_path):
    write_job(make_job(make_data(tmp_path / "data", num_samples=64)), tmp_path / "config.yaml")
    command = (sys.executable, "-m", "fleetrec.run", "-m", "config.yaml")
    statuses, outputs = run_all(tmp_path, [mpirun(0)], command)
    assert statuses == [2]
    assert "Open MPI has started 2 workers" in outputs[0]
    assert not (tmp_path / "ckpt").exists()
