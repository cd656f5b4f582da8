"""Jobs on a real Ray cluster of this machine, submitted by the command."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fleetrec.core.env import environment_with
from making import make_data, make_job, tensors_of, write_job
from multiprocess.kubernetes_double import wait_for

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fleetrec[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]
OPTIONS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


def environment():
    path = f"{Path(sys.executable).parent}:{environment_with({}, unless_set={})['PATH']}"
    return environment_with({**OPTIONS, "PATH": path}, unless_set={})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a head node with room for eight processes."""
    ports = []
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            holder = stack.enter_context(socket.socket())
            holder.bind(("127.0.0.1", 0))
            ports.append(holder.getsockname()[1])
    folder = tmp_path_factory.mktemp("r")
    command = [
        *("ray", "start", "--head", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=8"),
        *(f"--port={ports[0]}", "--dashboard-host=127.0.0.1", f"--dashboard-port={ports[1]}"),
        *(f"--dashboard-agent-listen-port={ports[2]}", f"--ray-client-server-port={ports[3]}"),
        *("--object-store-memory=100000000", f"--temp-dir=/tmp/ray-{os.getpid()}"),
    ]
    address = f"http://127.0.0.1:{ports[1]}"
    with (folder / "log").open("wb") as log:
        head = subprocess.Popen(
            command, env=environment(), stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_for(
            lambda: head.poll() is not None or answers(f"{address}/api/jobs/"), "Ray's dashboard"
        )
        assert head.poll() is None, (folder / "log").read_text()
        yield address
    finally:
        head.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            head.wait(30)
        for pid in processes_with(f"/tmp/ray-{os.getpid()}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(f"/tmp/ray-{os.getpid()}", ignore_errors=True)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def processes_with(text):
    """Return the processes that have a text in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


def fleetrec(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "fleetrec", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def write_files(folder, data, *, address, kind, **keys):
    folder.mkdir(exist_ok=True)
    results = folder / "results"
    job = make_job(
        data,
        batch_size=16,
        **{"class": kind, "worker_num": 2, "server_num": 2, "print_interval": 1, **keys},
        save_checkpoint_path=str(results),
    )
    write_job(job, folder / "config.yaml")
    (folder / "backend.yaml").write_text(
        f"backend: ray\nray: {{address: '{address}', work_path: '{folder}/work'}}\n"
        "submit: {workers: 2, job_name: ctr, worker_cpus: 1"
        f"{', servers: 2, server_cpus: 1' if keys['fleet_mode'] == 'ps' else ''}}}\n"
    )
    return results


def submitted(folder):
    done = fleetrec(folder, "submit", "-m", "config.yaml", "-b", "backend.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return re.search(r"folder is generated at (\S+)", done.stdout)[1]


def wait_for_end(folder, job):
    state = []

    def has_ended():
        state[:] = [fleetrec(folder, "job", "status", job).stdout]
        return any(word in state[0] for word in ("succeeded", "failed", "cancelled"))

    wait_for(has_ended, "the end of the job", deadline_s=300)
    return state[0], fleetrec(folder, "job", "logs", job).stdout


def servers_of(folder):
    """Return the processes of servers that have their state below a folder, by their state."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            match = re.search(rb"FLEETREC_STATE=([^\0]*)", path.read_bytes())
            if match and str(folder).encode() in match[1]:
                found.setdefault(match[1].decode(), int(path.parent.name))
    return found


def local_tensors(folder, data, **keys):
    results = write_files(folder, data, address="http://x", kind="local_cluster_train", **keys)
    done = fleetrec(folder, "run", "-m", "config.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return tensors_of(results / "1")


def test_a_killed_server_costs_nothing(tmp_path, cluster):
    data = make_data(tmp_path / "data", num_samples=640, num_files=2)
    keys = {"fleet_mode": "ps", "distribute_strategy": "sync"}
    folder = tmp_path / "ray"
    results = write_files(folder, data, address=cluster, kind="cluster_train", **keys)
    job = submitted(folder)
    wait_for(lambda: (results / "0/MANIFEST.json").is_file(), "the first epoch", deadline_s=240)
    os.kill(min(servers_of(folder).items())[1], signal.SIGKILL)
    state, logs = wait_for_end(folder, job)
    assert "succeeded" in state, logs
    assert "server.0 ended with status -9; started again (1 of 3)" in logs
    assert tensors_of(results / "1") == local_tensors(tmp_path / "local", data, **keys)
    assert not servers_of(folder)
    assert not list((folder / "work").glob("*/state/*"))


def test_a_killed_actor_is_restarted_by_ray(tmp_path, cluster):
    data = make_data(tmp_path / "data", num_samples=640, num_files=2)
    keys = {"fleet_mode": "ps", "distribute_strategy": "sync"}
    folder = tmp_path / "ray"
    results = write_files(folder, data, address=cluster, kind="cluster_train", **keys)
    job = submitted(folder)
    wait_for(lambda: (results / "0/MANIFEST.json").is_file(), "the first epoch", deadline_s=240)
    server = min(servers_of(folder).items())[1]
    status = Path(f"/proc/{server}/status").read_text()
    os.kill(int(re.search(r"PPid:\s+(\d+)", status)[1]), signal.SIGKILL)
    state, logs = wait_for_end(folder, job)
    assert "succeeded" in state, logs
    assert "server.0 was lost with its actor; started again (1 of 3)" in logs
    assert tensors_of(results / "1") == local_tensors(tmp_path / "local", data, **keys)


def test_ranks_are_placed_and_cancelled(tmp_path, cluster):
    data = make_data(tmp_path / "data", num_samples=6400, num_files=2)
    folder = tmp_path / "ray"
    write_files(
        folder, data, address=cluster, kind="cluster_train", fleet_mode="collective", epochs=50
    )
    job = submitted(folder)
    wait_for(lambda: "epoch 0 done" in fleetrec(folder, "job", "logs", job).stdout, "steps")
    done = fleetrec(folder, "job", "cancel", job)
    assert done.returncode == 0, done.stdout + done.stderr
    state, logs = wait_for_end(folder, job)
    assert "cancelled" in state, logs
