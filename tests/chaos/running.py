"""A job under its real supervisor, whose processes can be ordered to die."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from chaos.workspace import RUNNER
from fleetrec.core.env import FAULTS, SNAPSHOT_BYTES, environment_with

DEADLINE_S = 240.0
JOURNAL_BYTES = 60_000  # a few dozen steps, so that every run makes many snapshots
POLL_S = 0.005


class StuckError(Exception):
    """Something did not happen in time."""


class RunningJob:
    """The supervisor of a job and its processes; none of them outlives the block."""

    def __init__(self, folder, *arguments, prefix=(), verb="run"):
        self.folder = folder
        self.faults = folder / "faults"
        self.output = folder / "output"
        self._command = [*prefix, sys.executable, "-m", "fleetrec", verb, "-m", "config.yaml"]
        self._command += arguments
        self.supervisor = None

    def __enter__(self):
        for name in ("server.0", "server.1", "worker.0", "worker.1"):
            (self.faults / name).mkdir(parents=True, exist_ok=True)
        added = {FAULTS: str(self.faults), SNAPSHOT_BYTES: str(JOURNAL_BYTES)}
        with self.output.open("ab") as stream:
            self.supervisor = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=environment_with(added, unless_set={"OMP_NUM_THREADS": "1"}),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(self, *_):
        self.supervisor.kill()
        self.supervisor.wait()

    def order(self, process, place, *, count=1, word="kill"):
        """Let a process die, or tell that it came by, when it reaches a place."""
        path = self.faults / process / place
        staging = self.faults / f"{process}.{place}"
        staging.write_text(f"{count} {word}")
        staging.replace(path)
        return path

    def cancel_orders(self):
        for path in self.faults.glob("*/*"):
            path.unlink(missing_ok=True)

    def is_over(self):
        return self.supervisor.poll() is not None

    def wait_for(self, condition, what, *, seconds=DEADLINE_S):
        """Wait until something has happened; returns False if the job ended before."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.is_over():
                return bool(condition())
            if time.monotonic() > deadline:
                raise StuckError(f"waited in vain: {what}\n{self.tails()}")
            time.sleep(POLL_S)
        return True

    def wait(self):
        """Wait for the end of the job; returns its status."""
        self.wait_for(self.is_over, "the end of the job")
        return self.supervisor.returncode

    def pids(self):
        """Return the processes of the job by name, without those that are just being started."""
        found = {}
        for process in _children(self._root()):
            name = _name_of(process)
            if name is not None:
                found[name] = process
        return found

    def kill(self, process):
        """Send SIGKILL from outside; returns whether there was a process."""
        pid = self.pids().get(process)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def server_folder(self, index):
        return self.folder / f"logs/{self.folder.name}.{RUNNER}/servers/2x2/{index}"

    def tails(self):
        logs = [self.output, *sorted((self.folder / "logs").glob("[sw]*.[0-9]"))]
        return "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in logs)

    def _root(self):
        """Return the supervisor itself, where it was started by another program."""
        return self.supervisor.pid


def processes_with(folder):
    """Return all processes of this machine that belong to the job in a folder."""
    wanted = f"{FAULTS}={folder / 'faults'}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def _children(pid):
    with contextlib.suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


def _name_of(pid):
    with contextlib.suppress(OSError):
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if env.get("TRAINING_ROLE") == "TRAINER":
            return f"worker.{env['PADDLE_TRAINER_ID']}"
        if env.get("TRAINING_ROLE") == "PSERVER":
            own = f"{env['POD_IP']}:{env['PADDLE_PORT']}"
            return f"server.{env['PADDLE_PSERVERS_IP_PORT_LIST'].split(',').index(own)}"
    return None
