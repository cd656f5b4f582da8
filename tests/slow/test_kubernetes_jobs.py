"""Rendered jobs for Kubernetes, run pod by pod as processes: results equal those of one machine."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetrec.config.cluster.kubernetes import KubernetesOptions
from fleetrec.core.env import environment_with
from fleetrec.launch.job_spec import SERVER, WORKER, JobSpec, RoleSpec
from fleetrec.launch.kubernetes import KubernetesEngine
from making import make_data, make_job, tensors_of, write_job
from multiprocess import kubectl_double
from multiprocess.kubernetes_double import Cluster, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]
COMMAND = ("python", "-m", "fleetrec", "run", "-m", "config.yaml")
COLLECTIVE = {"fleet_mode": "collective"}
THREADS = {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("input") / "data", num_samples=640, num_files=2)


def write_config(folder, data, *, kind, results, **keys):
    folder.mkdir(parents=True, exist_ok=True)
    mode = {"fleet_mode": "ps", "distribute_strategy": "sync", "server_num": 2}
    if keys.pop("fleet_mode", "ps") == "collective":
        mode = {"fleet_mode": "collective"}
    job = make_job(
        data,
        batch_size=16,
        **{"class": kind, "worker_num": 2, "print_interval": 1, **mode, **keys},
        save_checkpoint_path=str(results),
    )
    return write_job(job, folder / "config.yaml")


def fleetrec(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "fleetrec", *arguments],
        cwd=folder,
        env=environment_with(THREADS, unless_set={}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_local(folder, data, **keys):
    """Return the tensors that a job of one machine makes."""
    write_config(folder, data, kind="local_cluster_train", results=folder / "ckpt", **keys)
    done = fleetrec(folder, *COMMAND[3:])
    assert done.returncode == 0, done.stdout + done.stderr
    return tensors_of(folder / "ckpt/1")


def submit(folder, results, **keys):
    """Submit the job of a folder by the command; returns the job folder and the job's name."""
    results.mkdir()
    backend = {
        "backend": "kubernetes",
        "kubernetes": {"image": "fleetrec", "claims": {"results": str(results)}},
        "config": keys.pop("config", {}),
        "submit": {"job_name": "ctr", "workers": 2, "worker_cpus": 1, **keys},
    }
    write_job(backend, folder / "backend.yaml")
    done = fleetrec(folder, "submit", "-m", "config.yaml", "-b", "backend.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    made = Path(re.search(r"folder is generated at (\S+)", done.stdout)[1])
    name = made.name.replace("_", "-")
    assert f"submitted: {name}\n" in done.stdout
    return made, name


def wait_for_state(folder, made, state):
    wait_for(lambda: state in fleetrec(folder, "job", "status", str(made)).stdout, f"a {state} job")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    variables = {**THREADS, "GLOO_SOCKET_IFNAME": "lo"}
    with Cluster(tmp_path / "cluster", variables=variables) as running:
        programs = kubectl_double.install(tmp_path / "bin", api=running.api)
        monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
        yield running


def engine(data, results):
    results.mkdir(exist_ok=True)
    claims = {"data": str(data), "results": str(results)}
    return KubernetesEngine(KubernetesOptions(image="fleetrec", claims=claims))


def ps_job():
    roles = (
        RoleSpec(name=SERVER, replicas=2, command=COMMAND, num_ports=1),
        RoleSpec(name=WORKER, replicas=2, command=COMMAND),
    )
    return JobSpec(name="ctr", env={"FLEETREC_TOKEN": "s3cret"}, roles=roles)


def logs_of(engine, folder, submitted):
    return "\n".join(engine.logs(folder, submitted.job_id))


def wait_for_end(engine, folder, submitted):
    job_id = submitted.job_id
    wait_for(lambda: engine.status(folder, job_id).has_ended, "the end of the job")
    return engine.status(folder, job_id).state, logs_of(engine, folder, submitted)


def test_servers_and_workers_give_what_one_machine_gives_and_the_servers_end(
    tmp_path, data, cluster
):
    results, folder = tmp_path / "results", tmp_path / "job"
    write_config(folder, "train_data", kind="cluster_train", results=results)
    cluster.claims.update(results=results)
    made, name = submit(folder, results, servers=2, config={"train_data_path": str(data)})
    wait_for(
        lambda: all(pod.is_ready() for pod in cluster.pods_of(f"{name}-servers")),
        "servers that are ready",
    )
    (victim, *_) = cluster.pods_of(f"{name}-servers")
    wait_for(lambda: (results / "0/MANIFEST.json").is_file(), "the first epoch")
    os.killpg(victim.process.pid, signal.SIGKILL)
    wait_for_state(folder, made, "succeeded")
    logs = fleetrec(folder, "job", "logs", str(made)).stdout
    assert f"[pod/{name}-workers-0-" in logs
    assert victim.num_starts > 1
    assert tensors_of(results / "1") == run_local(tmp_path / "local", data), logs
    wait_for(lambda: not cluster.pods_of(f"{name}-servers"), "the end of the servers")
    assert not cluster.refused
    assert not list((tmp_path / "cluster/claims").iterdir())


def test_ranks_give_what_one_machine_gives(tmp_path, data, cluster):
    results, folder = tmp_path / "results", tmp_path / "job"
    write_config(folder, "train_data", kind="cluster_train", results=results, **COLLECTIVE)
    cluster.claims.update(results=results)
    made, _ = submit(folder, results, config={"train_data_path": str(data)})
    wait_for_state(folder, made, "succeeded")
    logs = fleetrec(folder, "job", "logs", str(made)).stdout
    assert tensors_of(results / "1") == run_local(tmp_path / "local", data, **COLLECTIVE), logs


def test_a_cancelled_job_is_gone(tmp_path, data, cluster):
    results, folder = tmp_path / "results", tmp_path / "job"
    write_config(folder, data, kind="cluster_train", results=results, epochs=500)
    cluster.claims.update(results=results)
    made, name = submit(folder, results, servers=2)
    wait_for(lambda: (results / "0/MANIFEST.json").is_file(), "the first epoch")
    pods = [*cluster.pods_of(f"{name}-servers"), *cluster.pods_of(f"{name}-workers")]
    done = fleetrec(folder, "job", "cancel", str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(pod.process.poll() is not None for pod in pods)
    assert not cluster.objects


def test_a_failed_job_ends_its_servers_and_continues_when_it_is_submitted_again(
    tmp_path, data, cluster
):
    results, folder = tmp_path / "results", tmp_path / "ctr_202611182013"
    config = write_config(folder, data, kind="cluster_train", results=results)
    good = config.read_text()
    config.write_text(good.replace(str(data), str(data / "missing")))
    kubernetes = engine(data, results)
    cluster.claims.update(data=data, results=results)
    kubernetes.render(ps_job(), folder)
    submitted = kubernetes.submit(folder)
    state, logs = wait_for_end(kubernetes, folder, submitted)
    assert state == "failed"
    assert "missing" in logs
    wait_for(lambda: not cluster.pods_of("ctr-202611182013-servers"), "the end of the servers")
    config.write_text(good)
    cluster.failures.clear()
    kubernetes.submit(folder)
    state, logs = wait_for_end(kubernetes, folder, submitted)
    assert state == "succeeded", logs
    assert tensors_of(results / "1") == run_local(tmp_path / "local", data)
