"""A process of a job on the machine of an actor of Ray, which runs it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetrec.core.env import environment_with
from fleetrec.launch.child import EXEC

IDLE = "idle"


class Replica:
    """Starts a command and reports its end. It is an actor: one that Ray restarts knows nothing."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    def host(self) -> str:
        """Return the address of this machine in the cluster, as its operator has set it."""
        import ray

        cluster: Any = ray
        own = cluster.get_runtime_context().get_node_id()
        return str(
            next(node["NodeManagerAddress"] for node in cluster.nodes() if node["NodeID"] == own)
        )

    def free_port(self) -> int:
        """Return a port of this machine that nothing uses."""
        with socket.socket() as holder:
            holder.bind((self.host(), 0))
            return int(holder.getsockname()[1])

    def start(self, command: Sequence[str], env: Mapping[str, str], folder: str) -> None:
        """Start the command in its own folder, which gets the files of the job.

        What it prints is printed by this actor, and Ray sends that to the driver.
        """
        cwd = Path(folder)
        if not cwd.exists():
            shutil.copytree(Path.cwd(), cwd, ignore=shutil.ignore_patterns("ray-job"))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(EXEC), str(os.getpid()), *command],
            env=environment_with(env, unless_set={}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def poll(self) -> int | str | None:
        """Return how the command ended; None while it runs, or IDLE if it was not started."""
        return IDLE if self._process is None else self._process.poll()

    def send(self, number: int) -> None:
        """Send a signal to the command."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End the command at once, with all that it started."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def remove(self, folder: str) -> None:
        """Remove a folder of this machine."""
        shutil.rmtree(folder, ignore_errors=True)
