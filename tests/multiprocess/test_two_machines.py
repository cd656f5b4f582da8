"""Ranks on two machines, which are network namespaces of this one."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from making import make_data, make_job, tensors_of, write_job
from multiprocess.launching import wait_until

MACHINES = ("fleetrec-a", "fleetrec-b")
LINKS = ("frveth-a", "frveth-b")
ADDRESSES = ("10.77.31.1", "10.77.31.2")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
    ),
]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machines():
    """Two namespaces that see each other, and nothing else."""
    with contextlib.ExitStack() as stack:
        for machine in MACHINES:
            ip("netns", "add", machine)
            stack.callback(ip, "netns", "del", machine)
        ip("link", "add", LINKS[0], "type", "veth", "peer", "name", LINKS[1])
        for machine, link, address in zip(MACHINES, LINKS, ADDRESSES, strict=True):
            ip("link", "set", link, "netns", machine)
            ip("-n", machine, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", machine, "link", "set", link, "up")
            ip("-n", machine, "link", "set", "lo", "up")
        yield


@contextlib.contextmanager
def training(folder):
    """Start torchrun on both machines; each has one rank."""
    agents = []
    with contextlib.ExitStack() as stack:
        for number, machine in enumerate(MACHINES):
            log = stack.enter_context((folder / f"machine.{number}").open("wb"))
            agents.append(
                subprocess.Popen(
                    [
                        *("ip", "netns", "exec", machine),
                        *("env", f"GLOO_SOCKET_IFNAME={LINKS[number]}", "OMP_NUM_THREADS=1"),
                        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"),
                        *("--nproc-per-node", "1", "--max-restarts", "2"),
                        *("--rdzv-backend", "c10d", "--rdzv-id", "test"),
                        *("--rdzv-endpoint", f"{ADDRESSES[0]}:29411"),
                        *("--rdzv-conf", f"is_host={int(number == 0)}"),
                        *("--local-addr", ADDRESSES[number]),
                        *("-m", "fleetrec.run", "-m", "config.yaml"),
                    ],
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                )
            )
        try:
            yield agents
        finally:
            for agent in agents:
                agent.kill()
                agent.wait()


def write_cluster_job(folder, data):
    job = make_job(data, batch_size=16, save_checkpoint_interval=1)
    job["runner"][0] |= {
        "class": "cluster_train",
        "fleet_mode": "collective",
        "placement": "sharded",
        "save_step_path": "steps",
        "save_step_interval": 50,
        "rank_timeout": 60,
    }
    folder.mkdir()
    return write_job(job, folder / "config.yaml")


def rank_on(machine):
    """Return the pid of the rank on a machine."""
    pids = subprocess.run(
        ["ip", "netns", "pids", machine], capture_output=True, text=True, check=True
    ).stdout.split()
    for pid in map(int, pids):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if "fleetrec.run" in words and "torch.distributed.run" not in words:
                return pid
    raise AssertionError(f"no rank on {machine}")


def end_well(folder, agents):
    for agent in agents:
        agent.wait(280)
    said = "\n".join(path.read_text() for path in sorted(folder.glob("machine.*")))
    assert [agent.returncode for agent in agents] == [0, 0], said


def test_a_rank_that_dies_on_one_machine_leaves_no_trace(tmp_path, machines):
    data = make_data(tmp_path / "data", num_samples=6000, num_files=3)
    for name in ("unbroken", "broken"):
        folder = tmp_path / name
        write_cluster_job(folder, data)
        with training(folder) as agents:
            if name == "broken":
                saved = folder / "steps/epoch_0_batch_50/MANIFEST.json"
                wait_until(saved.is_file, "a checkpoint")
                os.kill(rank_on(MACHINES[1]), signal.SIGKILL)
            end_well(folder, agents)
    assert "resumed from" in (tmp_path / "broken/machine.0").read_text()
    ends = [tensors_of(tmp_path / name / "ckpt/1") for name in ("unbroken", "broken")]
    assert ends[0] == ends[1]
