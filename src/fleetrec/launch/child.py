"""One process of a job: started, restarted, and ended together with all that it started."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from fleetrec.launch.orphan_reaper import OrphanReaper

EXEC = Path(__file__).with_name("exec_with_parent_death.py")

State = Literal["waiting", "running", "finished", "failed", "stopped"]


class Child:
    """A command in a session of its own, whose output goes to a log."""

    def __init__(  # noqa: PLR0913 (all of them are needed to start it again)
        self,
        *,
        role: str,
        index: int,
        name: str,
        command: tuple[str, ...],
        log: Path,
        status: Path,
        reaper: OrphanReaper,
    ) -> None:
        self.role = role
        self.index = index
        self.name = name
        self.log = log
        self.status = status
        self.state: State = "waiting"
        self.num_restarts = 0
        self.returncode: int | None = None
        self.end_time = 0.0  # by the monotonic clock
        self._command = command
        self._reaper = reaper
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process was there when it was last polled."""
        return self._process is not None

    def start(self, env: Mapping[str, str]) -> None:
        """Start the command; its output is appended to the log."""
        with self.log.open("ab") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(EXEC), str(os.getpid()), *self._command],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._reaper.watch(self._process.pid)
        self.state = "running"
        self.returncode = None

    def has_ended(self) -> bool:
        """Poll the process; if it has ended, what it has started is killed too."""
        if self._process is None:
            return True
        pid = self._process.pid
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self._kill_group(pid)  # before its number is released and may be reused
        self._reaper.forget(pid)
        self.returncode = self._process.wait()
        self.end_time = time.monotonic()
        self._process = None
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, which handles its own children."""
        if self._process is not None:
            os.kill(self._process.pid, number)  # not send_signal, which may take its status

    def kill(self) -> None:
        """Kill the process and all that it started."""
        if self._process is None:
            return
        self._kill_group(self._process.pid)
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.has_ended()

    def exit_description(self) -> str:
        """Return how the process ended, in words."""
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
