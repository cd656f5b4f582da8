"""What the keys of PaddleRec become with each engine."""

import re
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from fleetrec.cli.submit import submit_command
from fleetrec.cli.submit_plan import SubmitRequest, plan_submission
from fleetrec.core.errors import ConfigError
from making_cluster import make_backend, make_workspace, readable_by_others, write_yaml

RANKS = {"fleet_mode": "collective", "device": "gpu"}
SUBMIT = {"job_name": "Ctr_1", "files": "./*.py", "k8s_trainers": 2, "k8s-cpu-cores": 8}
KUBERNETES = {"image": "registry/fleetrec:1"}


def make_plan(folder: Path, backend, *, job=None, **changes):
    make_workspace(folder, **(job or {}))
    write_yaml(folder / "backend.yaml", backend)
    request = SubmitRequest(model="config.yaml", backend_file=Path("backend.yaml"), **changes)
    return plan_submission(request)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_job_for_dlc_is_a_pytorchjob_with_its_secrets_apart(workspace, capsys):
    make_workspace(workspace, **RANKS)
    backend = {
        "backend": "dlc",
        "config": {"fs_name": "s3://bucket", "fs_ugi": "me,s3cr3t", "train_data_path": "/train"},
        "submit": {**SUBMIT, "k8s_gpu_card": 4, "priority": "very_high"},
        "kubernetes": KUBERNETES,
    }
    write_yaml(workspace / "backend.yaml", backend)
    submit_command(
        SubmitRequest(model="config.yaml", backend_file=Path("backend.yaml"), dry_run=True)
    )
    (made,) = workspace.glob("Ctr_1_*")
    objects = [one for path in made.rglob("*.yaml") for one in YAML(typ="safe").load_all(path)]
    (job,) = [one for one in objects if one and one.get("kind") == "PyTorchJob"]
    master = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert master["priorityClassName"] == "very-high"
    assert master["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 1
    assert not [path for path, text in readable_by_others(made).items() if b"s3cr3t" in text]


def test_servers_are_refused_on_dlc(workspace):
    backend = {"backend": "dlc", "submit": SUBMIT, "kubernetes": KUBERNETES}
    with pytest.raises(ConfigError, match="backend: a pytorchjob has no parameter servers"):
        make_plan(workspace, backend)
    backend["kubernetes"] = {**KUBERNETES, "flavour": "volcano"}
    with pytest.raises(ConfigError, match=r"kubernetes.flavour: backend: dlc has flavour"):
        make_plan(workspace, backend, job=RANKS)


def test_a_rank_has_a_gpu_unless_pods_start_several(workspace):
    submit = {**SUBMIT, "k8s_gpu_card": 4}
    found = {}
    for backend in ("slurm", "kubernetes"):
        section = {"kubernetes": KUBERNETES} if backend == "kubernetes" else {}
        plan = make_plan(workspace, {"backend": backend, "submit": submit, **section}, job=RANKS)
        found[backend] = (plan.job.workers.replicas, plan.job.workers.resources)
    assert found["slurm"][0] == 8
    assert (found["slurm"][1].gpus, found["slurm"][1].cpus) == (1, 2)
    assert found["kubernetes"][0] == 2
    assert (found["kubernetes"][1].gpus, found["kubernetes"][1].cpus) == (4, 8)


def test_priority_and_group_are_those_of_slurm(workspace):
    submit = {**SUBMIT, "priority": "very_high", "group": "ads"}
    plan = make_plan(workspace, {"backend": "slurm", "submit": submit})
    assert (plan.section.qos, plan.section.account) == ("very_high", "ads")
    written = {"backend": "slurm", "submit": submit, "slurm": {"qos": "own"}}
    assert make_plan(workspace, written).section.qos == "own"
    plan = make_plan(workspace, {"backend": "local", "submit": submit})
    assert "submit.group has no effect with backend: local" in plan.notices


def test_a_wrong_key_of_an_engine_is_named(workspace):
    backend = {"backend": "slurm", "submit": SUBMIT, "slurm": {"partitoin": "gpu"}}
    with pytest.raises(ConfigError, match=r"slurm.partitoin: unknown key; did you mean 'part"):
        make_plan(workspace, backend)
    plan = make_plan(workspace, {"backend": "local", "submit": SUBMIT, "slurm": {}})
    assert any("slurm: has no effect with backend: local" in text for text in plan.notices)


def test_the_mpi_cluster_of_paddlecloud_runs_by_mpirun(workspace):
    backend = make_backend("mpi", {"fs_name": "", "fs_ugi": ""}, {"nodes": 3, "ak": "", "sk": ""})
    plan = make_plan(workspace, backend, local_mpi=True)
    assert plan.keys.backend == "mpi"
    assert (plan.job.workers.replicas, plan.job.servers.replicas) == (3, 3)
    with pytest.raises(
        ConfigError, match=r"--local-mpi: backend\.yaml is not for cluster_type: mpi"
    ):
        make_plan(workspace, make_backend("k8s", {"fs_name": ""}), local_mpi=True)


def test_flags_that_are_written_reach_the_nodes(workspace):
    flags = {"FLAGS_communicator_thread_pool_size": 9}
    backend = {"backend": "local", "config": {"communicator": flags}, "submit": SUBMIT}
    env = make_plan(workspace, backend, overrides=["phase.phase1.thread_num=3"]).job.env
    assert env["FLAGS_communicator_thread_pool_size"] == "9"
    assert "FLAGS_communicator_fake_rpc" not in env
    assert (env["CPU_NUM"], env["PADDLE_PADDLEREC_ROLE"]) == ("3", "WORKER")


def test_keys_are_the_same_with_hyphens_and_the_last_counts(workspace):
    make_workspace(workspace)
    (workspace / "backend.yaml").write_text(
        "backend: local\nsubmit:\n  files: ./*.py\n  k8s-trainers: 2\n  k8s_ps_num: 1\n"
        "  k8s_trainers: 3\n  k8s-ps-num: 2\n  k8s-ps-num: 4\n"
    )
    plan = plan_submission(SubmitRequest(model="config.yaml", backend_file=Path("backend.yaml")))
    assert (plan.job.workers.replicas, plan.job.servers.replicas) == (3, 4)
    twice = [text for text in plan.notices if "written twice" in text]
    assert len(twice) == 3
    assert all(re.match(r"backend.yaml:[678]: ", text) for text in twice)


def test_the_job_folder_has_the_name_that_the_command_uses(workspace):
    make_workspace(workspace)
    shutil.move(workspace / "config.yaml", workspace / "dnn.yaml")
    for start_cmd, name in (
        ("python -m paddlerec.run -m ./config.yaml", "config.yaml"),
        ("python -m paddlerec.run -m dnn.yaml", "dnn.yaml"),
    ):
        backend = {"backend": "local", "submit": {**SUBMIT, "start_cmd": start_cmd}}
        write_yaml(workspace / "backend.yaml", backend)
        plan = plan_submission(SubmitRequest(model="dnn.yaml", backend_file=Path("backend.yaml")))
        assert sorted(plan.files.sources) == sorted([name, "model.py"])
