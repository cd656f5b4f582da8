"""Nothing survives the supervisor, not even what its children have started."""

import subprocess
import sys
from pathlib import Path
from typing import Self

LAST_RITES = Path(__file__).with_name("last_rites.py")


class Guard:
    """A small process beside the supervisor that kills its process groups when it is gone.

    The kernel's parent-death signal (see enter.py) reaches the children only; their own children,
    such as readers of data, are in the same process group.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input

    def watch(self, group: int) -> None:
        """Let a process group die with this process."""
        self._groups.add(group)
        self._tell(f"+{group}")

    def forget(self, group: int) -> None:
        """Tell that a group is over, before its number may be used again."""
        self._groups.discard(group)
        self._tell(f"-{group}")

    def renew(self) -> None:
        """Start the guard again if somebody killed it."""
        if self._process.poll() is not None:
            self._process.communicate()
            self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAST_RITES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        for group in self._groups:
            self._tell(f"+{group}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.renew()
