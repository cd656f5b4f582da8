"""Commands that outlive the process which starts them, and can be watched from any other."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from fleetrec.core.errors import ConfigError

# The first argument is the file of the exit status; the others are the command. A signal to the
# whole group ends the command, but not the shell that notes how it has ended.
RUN = 'trap : TERM INT HUP; exit=$1; shift; "$@"; echo $? >"$exit.new"; mv "$exit.new" "$exit"'
PID, EXIT, LOG, CANCELLED = "process.json", "exit", "log", "cancelled"
POLL_S = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Detached:
    """A command in a session of its own, and the files that say how it is."""

    folder: Path

    @property
    def log(self) -> Path:
        """The output of the command."""
        return self.folder / LOG

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called while the command ran."""
        return (self.folder / CANCELLED).exists()

    def start(self, command: Sequence[str], *, cwd: Path) -> None:
        """Start the command and return at once."""
        self.folder.mkdir(parents=True)
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                ["/bin/sh", "-c", RUN, "sh", str((self.folder / EXIT).resolve()), *command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        about = {"host": socket.gethostname(), "pid": process.pid, "start": _start(process.pid)}
        (self.folder / PID).write_text(json.dumps(about) + "\n", encoding="utf-8")
        process.returncode = 0  # it is not ours to wait for: no warning that it still runs

    def exit_status(self) -> int | None:
        """Return the exit status of the command, if it has ended by itself or by a signal."""
        with contextlib.suppress(FileNotFoundError):
            return int((self.folder / EXIT).read_text())
        return None

    def is_running(self) -> bool:
        """Return whether the command runs; its process number may be in use by another."""
        pid = self._pid()
        return pid is not None and self.exit_status() is None

    def cancel(self, *, timeout_s: float) -> None:
        """End the command by SIGTERM, and by SIGKILL after some time; returns when it has ended."""
        pid = self._pid()
        if pid is None or self.exit_status() is not None:
            return
        (self.folder / CANCELLED).touch()
        deadline = time.monotonic() + timeout_s
        while self.is_running() and not _has_started(pid) and time.monotonic() < deadline:
            time.sleep(POLL_S)  # the shell has not started the command yet, and would ignore this
        number = signal.SIGTERM
        while self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)
            number = signal.SIGCONT  # once asked is enough, and this does nothing
            if time.monotonic() > deadline:
                number = signal.SIGKILL
            time.sleep(POLL_S)

    def _pid(self) -> int | None:
        """Return the process number if that very process is still there."""
        try:
            about = json.loads((self.folder / PID).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError([f"{self.folder}: no job was started here"]) from error
        if about["host"] != socket.gethostname():
            raise ConfigError(
                [f"{self.folder}: the job was started on {about['host']}; call this command there"]
            )
        pid = int(about["pid"])
        return pid if _start(pid) == about["start"] else None


def _has_started(shell: int) -> bool:
    """Return whether the child of a shell is the command already, and no copy of the shell."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        own, *others = (
            Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (str(shell), *children)
        )
        return any(command not in (own, b"") for command in others)
    return False


def _start(pid: int) -> int | None:
    """Return when a process was started, in ticks since the boot; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])
