"""Kill all process groups when the supervisor dies."""

import subprocess
import sys
from pathlib import Path

REAP_CHILDREN = Path(__file__).with_name("reap_children.py")


class OrphanReaper:
    """A small process beside the supervisor that kills its process groups when it is gone.

    The kernel's parent-death signal (see exec_with_parent_death.py) reaches the children only;
    their own children, such as readers of data, are in the same process group.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._start()

    def watch(self, group: int) -> None:
        """Let a process group die with this process."""
        self._groups.add(group)
        self._send(f"+{group}")

    def forget(self, group: int) -> None:
        """Remove a group that has ended, before its number may be used again."""
        self._groups.discard(group)
        self._send(f"-{group}")

    def restart_if_dead(self) -> None:
        """Start the reaper again if someone killed it."""
        if self._process.poll() is not None:
            self._process.communicate()
            self._start()

    def close(self) -> None:
        """End the reaper; it kills the groups that are still there."""
        self._process.communicate()  # the end of its input

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(REAP_CHILDREN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        for group in self._groups:
            self._send(f"+{group}")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.restart_if_dead()
