"""The engine for Ray: what it renders, and what it reads from the client."""

import json
import stat
import sys

import pytest
from pydantic import ValidationError

from fleetrec.config.cluster.ray import RayOptions
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.launch.job_spec import SERVER, WORKER, JobSpec, Resources, RoleSpec
from fleetrec.launch.ray import RayEngine, status_of
from fleetrec.launch.ray_driver import bundle_of
from fleetrec.launch.ray_replica import IDLE, Replica
from fleetrec.launch.stored_job import read_stored_job

COMMAND = ("python", "-m", "fleetrec.run")
SERVERS = RoleSpec(
    name=SERVER,
    replicas=2,
    command=COMMAND,
    env={"FLEETREC_STATE": "state/${rank}"},
    num_ports=1,
    resources=Resources(cpus=2, memory_bytes=1 << 30),
)
WORKERS = RoleSpec(name=WORKER, replicas=3, command=COMMAND, resources=Resources(gpus=1))
JOB = JobSpec(name="ctr", env={"FLEETREC_TOKEN": "s3cret"}, roles=(SERVERS, WORKERS))


def test_only_the_owner_can_read_the_secrets(tmp_path):
    options = RayOptions(work_path="/jobs", state_path="/shared", runtime_env={"pip": ["x"]})
    paths = RayEngine(options).render(JOB, tmp_path)
    for path in paths:
        has_secret = "s3cret" in path.read_text()
        assert has_secret == (path.name == "tasks.secrets.json")
        assert not has_secret or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_stored_job(tmp_path / "ray-job").job == JOB
    placing = json.loads((tmp_path / "ray-job/driver.json").read_text())
    assert placing["work_path"] == f"/jobs/{tmp_path.name}"
    assert placing["state_path"] == f"/shared/{tmp_path.name}"
    runtime = json.loads((tmp_path / "ray-job/runtime_env.json").read_text())
    assert runtime["pip"] == ["x"]
    assert "backend.yaml" in runtime["excludes"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Status for job 'a-1': PENDING\nStatus message: waits\n", "pending"),
        ("Status for job 'a-1': RUNNING\n", "running"),
        ("------\nJob 'a-1' succeeded\n------\n", "succeeded"),
        ("Job 'a-1' failed\nStatus message: exit code 1\n", "failed"),
        ("Job 'a-1' was stopped\n", "cancelled"),
        ("nothing\n", "unknown"),
    ],
)
def test_the_state_of_a_job_is_read_from_what_the_client_prints(text, state):
    assert status_of(text).state == state


def test_the_message_of_a_failed_job_is_kept():
    assert status_of("Job 'a' failed\nStatus message: exit code 1\n").detail == "exit code 1"


def test_a_process_reserves_what_it_needs():
    assert bundle_of(SERVERS) == {"CPU": 2.0, "memory": float(1 << 30)}
    assert bundle_of(WORKERS) == {"CPU": 1.0, "GPU": 1.0}


def test_a_folder_without_a_rendered_job_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no folder of a job for Ray"):
        RayEngine(RayOptions()).submit(tmp_path)


def test_a_missing_client_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = RayEngine(RayOptions())
    engine.render(JOB, tmp_path)
    with pytest.raises(UnavailableError, match=r"ray: not found; .*fleetrec\[ray\]"):
        engine.submit(tmp_path)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"address": "here"}, "address"),
        ({"strategy": "ALL"}, "'PACK', 'SPREAD'"),
        ({"runtime_env": {"working_dir": "."}}, "working_dir is that of the job folder"),
        ({"work_path": "relative"}, "work_path"),
    ],
)
def test_a_wrong_key_is_refused(keys, problem):
    with pytest.raises(ValidationError, match=problem):
        RayOptions(**keys)


def test_a_replica_runs_in_a_copy_of_the_job_folder(tmp_path, monkeypatch):
    job = tmp_path / "job"
    (job / "ray-job").mkdir(parents=True)
    (job / "config.yaml").write_text("x")
    monkeypatch.chdir(job)
    folder = tmp_path / "work/worker.0"
    replica = Replica("worker.0")
    assert replica.poll() == IDLE
    program = "import os, pathlib; pathlib.Path('out').write_text(os.environ['GIVEN'])"
    replica.start([sys.executable, "-c", program], {"GIVEN": "7"}, str(folder))
    replica._process.wait()
    assert replica.poll() == 0
    assert (folder / "out").read_text() == "7"
    assert (folder / "config.yaml").read_text() == "x"
    assert not (folder / "ray-job").exists()
    replica.start([sys.executable, "-c", "input()"], {}, str(folder))
    replica.kill()
    assert replica.poll() in (1, -9)
    replica.remove(str(folder))
    assert not folder.exists()
