"""One process of a job: started, watched, restarted, ended together with all it started."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from fleetrec.core.topology import Role
from fleetrec.launch.guard import Guard

ENTER = Path(__file__).with_name("enter.py")

State = Literal["waiting", "running", "finished", "failed", "stopped"]


class Child:
    """A command in a session of its own, whose output goes to a log."""

    def __init__(  # noqa: PLR0913 (all of them are needed to start it again)
        self,
        *,
        role: Role,
        name: str,
        command: tuple[str, ...],
        env: Mapping[str, str],
        log: Path,
        status: Path,
        guard: Guard,
    ) -> None:
        self.role = role
        self.name = name
        self.log = log
        self.status = status
        self.state: State = "waiting"
        self.num_restarts = 0
        self.returncode: int | None = None
        self.end_time = 0.0  # by the monotonic clock
        self._command = command
        self._env = env
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether the process was there when it was last looked at."""
        return self._process is not None

    def start(self) -> None:
        """Start the command; its output is added to what the log has."""
        with self.log.open("ab") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(ENTER), str(os.getpid()), *self._command],
                env=dict(self._env),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard.watch(self._process.pid)
        self.state = "running"
        self.returncode = None

    def restart(self) -> None:
        """Start the same command again."""
        self.num_restarts += 1
        self.start()

    def has_ended(self) -> bool:
        """Look whether the process has ended; if so, what it has started is ended too."""
        if self._process is None:
            return True
        pid = self._process.pid
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self._kill_group(pid)  # before its number is given back: it could be somebody else's
        self._guard.forget(pid)
        self.returncode = self._process.wait()
        self.end_time = time.monotonic()
        self._process = None
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, which knows best what to do with its own."""
        if self._process is not None:
            os.kill(self._process.pid, number)  # not send_signal, which may take its status

    def kill(self) -> None:
        """End the process and all it started, at once."""
        if self._process is None:
            return
        self._kill_group(self._process.pid)
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.has_ended()

    def how_it_ended(self) -> str:
        """Say it in words."""
        assert self.returncode is not None
        if self.returncode >= 0:
            return f"ended with status {self.returncode}"
        return f"was killed by {_signal_name(-self.returncode)}"

    @staticmethod
    def _kill_group(group: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the many without a name
        return f"signal {number}"
