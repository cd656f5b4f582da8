"""Jobs on hosts of a cluster, submitted and followed by the command; their results are compared."""

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from making import make_data, make_job, tensors_of, write_job
from multiprocess.launching import wait_until
from network_hosts import Hosts
from warm_start import environment_of

ROLES = {"ps": {"workers": 2, "servers": 2}, "collective": {"workers": 2}}
NAMES = ("node-a", "node-b")
MANY_EPOCHS = 1000  # until it is cancelled
DEADLINE_S = 300
FLEETREC = (sys.executable, "-m", "fleetrec")


def make_training(data, fleet_mode, **runner):
    job = make_job(data, batch_size=16, save_checkpoint_interval=1)
    job["runner"][0] |= {
        "fleet_mode": fleet_mode,
        "distribute_strategy": "sync",
        "save_step_path": "steps",
        "save_step_interval": 50,
        "rank_timeout": 20,
        **runner,
    }
    return job


def train_locally(folder, data, fleet_mode):
    """Return what the local cluster makes of the same job."""
    numbers = {"worker_num": 2} | ({"server_num": 2} if fleet_mode == "ps" else {})
    job = make_training(data, fleet_mode, **{"class": "local_cluster_train"}, **numbers)
    write_job(job, folder / "config.yaml")
    command = [*FLEETREC, "run", "-m", "config.yaml"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tensors_of(folder / "ckpt/1")


class Expected:
    """Data, and what the local cluster learns from it, by fleet_mode; trained when asked for."""

    def __init__(self, folder):
        self._folder = folder
        self._results = {}
        self.data = make_data(folder / "data", num_samples=12000, num_files=4)

    def result(self, fleet_mode):
        if fleet_mode not in self._results:
            folder = self._folder / fleet_mode
            self._results[fleet_mode] = train_locally(folder, self.data, fleet_mode)
        return self._results[fleet_mode]


@dataclasses.dataclass
class EngineJob:
    """A submitted job; every question is asked by a command of its own, on the first host."""

    hosts: Hosts
    prefix: tuple[str, ...]  # before each command
    cwd: Path
    folder: Path
    output: str

    def ask(self, verb):
        return self._run("job", verb, self.folder)

    @property
    def state(self):
        return re.match(r"\w+: (\w+)", self.ask("status").stdout)[1]

    def wait_for_steps(self):
        wait_until((self.folder / "steps/epoch_0_batch_50/MANIFEST.json").is_file, "a checkpoint")

    def wait_for_end(self):
        deadline = time.monotonic() + DEADLINE_S
        while (state := self.state) in ("pending", "running"):
            assert time.monotonic() < deadline, self.ask("logs").stdout
        return state

    def check_result(self, expected):
        assert self.wait_for_end() == "succeeded", (
            self.ask("status").stdout + self.ask("logs").stdout
        )
        assert tensors_of(self.folder / "ckpt/1") == expected

    def kill(self, host, *, role):
        """Kill the process of a role on a host by its number; it cannot save itself."""
        for pid in self.hosts.pids(host):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                variables = environment_of(pid)
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                is_training = "fleetrec.run" in words and "fleetrec.node" not in words
                found = variables.get("FLEETREC_ROLE", "rank")
                if is_training and found == role and "torch.distributed.run" not in words:
                    os.kill(pid, signal.SIGKILL)
                    return
        raise AssertionError(f"no {role} on {host}")

    def _run(self, *words):
        return run_on(self.hosts, self.prefix, self.cwd, *words)


def run_on(hosts, prefix, cwd, *words):
    command = hosts.on(hosts.names[0], *prefix, *FLEETREC, *words)
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def submit(hosts, folder, data, fleet_mode, *, backend, section, prefix=(), **runner):
    """Submit a job by the command; returns at once."""
    folder.mkdir()
    write_job(
        make_training(data, fleet_mode, **{"class": "cluster_train"}, **runner),
        folder / "config.yaml",
    )
    needs = {"worker_cpus": 1} | ({"server_cpus": 1} if fleet_mode == "ps" else {})
    keys = {
        "backend": backend,
        backend: section,
        "submit": {"job_name": "test", **ROLES[fleet_mode], **needs},
    }
    write_job(keys, folder / "backend.yaml")
    done = run_on(hosts, prefix, folder, "submit", "-m", "config.yaml", "-b", "backend.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("test_*")
    return EngineJob(hosts=hosts, prefix=prefix, cwd=folder, folder=made, output=done.stdout)
