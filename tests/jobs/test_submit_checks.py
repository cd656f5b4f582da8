"""Wrong backend files: one message for each mistake, before anything is written."""

import copy
import re
from pathlib import Path

import pytest

from fleetrec.cli.submit import submit_command
from fleetrec.cli.submit_plan import SubmitRequest
from fleetrec.core.errors import ConfigError
from making_cluster import make_backend, make_workspace, write_yaml

PS, RANKS, GPUS = {}, {"fleet_mode": "collective"}, {"fleet_mode": "collective", "device": "gpu"}
OWN = {"fs_name": "", "fs_ugi": "", "train_data_path": "/data", "output_path": ""}


def own(backend: str, **changes):
    """A backend.yaml for one of FleetRec's own engines."""
    return {"backend": backend, "config": dict(OWN), "submit": {"files": "./*.py"}, **changes}


def without(data, *keys):
    data = copy.deepcopy(data)
    section = data
    for key in keys[:-1]:
        section = section[key]
    del section[keys[-1]]
    return data


def changed(data, value, *keys):
    data = copy.deepcopy(data)
    section = data
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value
    return data


MPI, K8S = make_backend("mpi"), make_backend("k8s")
WRONG = {
    # what trains where
    "mpi with ranks": (RANKS, MPI, r":2: cluster_type: PaddleCloud's mpi trains fleet_mode: ps"),
    "mpi with GPUs": ({"device": "gpu"}, MPI, "cluster_type: PaddleCloud's mpi .*device: gpu"),
    "k8s with ranks on CPUs": (RANKS, K8S, "cluster_type: PaddleCloud's k8s .*device: cpu"),
    "k8s with ps on GPUs": ({"device": "gpu"}, K8S, "PaddleCloud's k8s .*fleet_mode: ps, device"),
    "own ps on GPUs": ({"device": "gpu"}, own("local"), "backend: workers of parameter servers"),
    "no cluster type": (PS, without(MPI, "cluster_type"), "cluster_type: required"),
    "other cluster type": (PS, changed(MPI, "yarn", "cluster_type"), "'mpi' or 'k8s', got 'yarn'"),
    "type of another": (PS, own("local", cluster_type="k8s"), "k8s does not fit backend: local"),
    "other backend": (PS, changed(MPI, "paddlecluod", "backend"), "did you mean 'paddlecloud'"),
    "no backend": (PS, without(MPI, "backend"), "backend: required, but missing"),
    # what PaddleCloud needs
    "no ak": (PS, changed(MPI, "", "submit", "ak"), "submit.ak: required.*FLEETREC_AK"),
    "ak is null": (PS, changed(MPI, None, "submit", "ak"), "submit.ak: has no value"),
    "no sk": (PS, without(MPI, "submit", "sk"), "submit.sk: required"),
    "no fs_name": (PS, changed(MPI, "", "config", "fs_name"), "config.fs_name: required"),
    "no fs_ugi": (PS, changed(MPI, "", "config", "fs_ugi"), "config.fs_ugi: required"),
    "no password": (PS, changed(MPI, "user", "config", "fs_ugi"), "expected user,password"),
    "no data": (PS, changed(MPI, "", "config", "train_data_path"), "train_data_path: required"),
    "no files": (PS, changed(MPI, "", "submit", "files"), "submit.files: required"),
    # values and keys
    "misspelt key": (PS, changed(MPI, 1, "submit", "k8s-cpu-core"), "mean 'k8s_cpu_cores'"),
    "misspelt section": (PS, changed(MPI, {}, "submits"), "submits: unknown key; did you mean"),
    "misspelt flag": (
        PS,
        changed(MPI, {"FLAGS_communicator_fake_rcp": 0}, "config", "communicator"),
        "did you mean 'FLAGS_communicator_fake_rpc'",
    ),
    "nodes is no number": (PS, changed(MPI, "two", "submit", "nodes"), "nodes: .*got 'two'"),
    "no trainers": (PS, changed(MPI, 0, "submit", "k8s_trainers"), "greater than 0, got 0"),
    "name of a path": (PS, changed(MPI, "a/b", "submit", "job_name"), "job_name: .*got 'a/b'"),
    "two meanings": (
        PS,
        changed(changed(MPI, 2, "submit", "workers"), 3, "submit", "k8s_trainers"),
        "workers: 2 and k8s_trainers: 3 mean the same",
    ),
    "section is a list": (PS, changed(MPI, [1], "submit"), "submit: expected a mapping"),
    # files and command
    "no such file": (PS, changed(MPI, "./*.pyy", "submit", "files"), r"'\./\*\.pyy' matches no"),
    "not the model": (PS, changed(MPI, "./*.yaml", "submit", "files"), "model.py, which .* needs"),
    "same names": (
        PS,
        changed(MPI, "./*.py sub/*.py", "submit", "files"),
        "model.py and sub/model.py would both become model.py",
    ),
    "name of the record": (
        PS,
        changed(MPI, "./*.py sub/job.json", "submit", "files"),
        "a file of the job folder is called job.json",
    ),
    "other job": (
        PS,
        changed(MPI, "python -m fleetrec.run -m other.yaml", "submit", "start_cmd"),
        "-m other.yaml is not in the job folder",
    ),
    "open quote": (PS, changed(MPI, "echo 'a", "submit", "start_cmd"), "No closing quotation"),
    # data and resources of own engines
    "storage of PaddleCloud": (
        PS,
        own("local", config={**OWN, "fs_name": "afs://x"}),
        "called 'afs'; only backend: PaddleCloud",
    ),
    "fs_name is no URL": (PS, own("local", config={"fs_name": "nn:8020"}), "expected a URL such"),
    "user without storage": (PS, own("local", config={"fs_ugi": "u,p"}), "without fs_name"),
    "user of a bucket": (
        PS,
        own("local", config={"fs_name": "gs://b", "fs_ugi": "u,p"}),
        "gs has no user and password",
    ),
    "password in a URL": (
        PS,
        own("local", config={"output_path": "ftp://u:p@h/x"}),
        "expected a URL without credentials",
    ),
    "servers of ranks": (RANKS, own("local", submit={"files": "*.py", "servers": 1}), "no servers"),
    "GPUs of a CPU job": (
        RANKS,
        own("local", submit={"files": "*.py", "worker_gpus": 1}),
        "worker_gpus: the job trains on the CPU",
    ),
    "memory is no size": (
        PS,
        own("local", submit={"files": "*.py", "worker_memory": "much"}),
        "expected a size such as 16Gi",
    ),
}


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("model.py", "job.json"):
        (tmp_path / "sub" / name).write_text("")
    return tmp_path


def problems_of(folder: Path, backend, **changes) -> tuple[str, ...]:
    write_yaml(folder / "backend.yaml", backend)
    before = sorted(folder.rglob("*"))
    request = SubmitRequest(model="config.yaml", backend_file=Path("backend.yaml"), **changes)
    with pytest.raises(ConfigError) as failure:
        submit_command(request)
    assert sorted(folder.rglob("*")) == before
    return failure.value.problems


@pytest.mark.parametrize("name", WRONG)
def test_one_mistake_gives_one_message(name, workspace):
    job, backend, message = WRONG[name]
    make_workspace(workspace, **job)
    (problem,) = problems_of(workspace, backend)
    assert re.search(message, problem)


def test_all_mistakes_of_both_files_are_reported_at_once(workspace):
    make_workspace(workspace)
    job = (workspace / "config.yaml").read_text()
    (workspace / "config.yaml").write_text(job.replace("epochs: 2", "epoch: 2"))
    backend = changed(changed(MPI, None, "submit", "sk"), "", "config", "fs_name")
    backend["submit"]["k8s-gpu-crad"] = 1
    problems = problems_of(workspace, backend)
    assert len(problems) == 3
    first, second, third = problems
    assert re.search(r"^backend.yaml:\d+: submit.sk: has no value", first)
    assert re.search(r"^backend.yaml:\d+: submit.k8s_gpu_crad: unknown key", second)
    assert re.search(r"^config.yaml:\d+: runner.cluster.epoch: unknown key", third)


def test_a_job_for_one_machine_is_not_submitted(workspace):
    make_workspace(workspace)
    job = (workspace / "config.yaml").read_text()
    (workspace / "config.yaml").write_text(job.replace("cluster_train", "local_cluster_train"))
    (problem,) = problems_of(workspace, MPI)
    assert "class local_cluster starts its processes on one machine" in problem


def test_several_workers_need_a_job_of_several_processes(workspace):
    make_workspace(workspace)
    job = (workspace / "config.yaml").read_text()
    (workspace / "config.yaml").write_text(job.replace("cluster_train", "train"))
    backend = own("local", submit={"files": "*.py", "k8s_trainers": 3})
    (problem,) = problems_of(workspace, backend)
    assert "submit.k8s_trainers: 3 workers, but the runners of the job are one process" in problem
