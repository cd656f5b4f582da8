"""Fault injection points, for tests of what a job survives.

Without ``FLEETREC_FAULTS`` in the environment a fault point does nothing. The variable names a
folder with one folder per process, such as ``server.0`` or ``worker.1``; that of a run of one
process is ``process.0``. In it, a file with the name of a fault point holds a number and a word:
when the point is reached for that number of times, the file is deleted, and with ``kill`` the
process is killed, too; with ``stop`` it stands still until SIGCONT; ``note`` only deletes the file,
which shows that the point was reached.
"""

import functools
import os
import signal
import threading
from pathlib import Path

from fleetrec.core.env import read_faults_path


def fault_point(name: str) -> None:
    """Fault injection point: the process is killed here if a test has asked for it."""
    folder = _folder()
    if folder is not None:
        _trigger(folder / name)


@functools.cache
def _folder() -> Path | None:
    return read_faults_path()


def _trigger(order: Path) -> None:
    try:
        count, _, word = order.read_text(encoding="ascii").partition(" ")
    except FileNotFoundError:
        return
    if int(count) > 1:
        staging = order.with_name(f".{order.name}.{threading.get_ident()}")
        staging.write_text(f"{int(count) - 1} {word}", encoding="ascii")
        staging.replace(order)  # other threads never read half of it
        return
    try:
        order.unlink()
    except FileNotFoundError:  # another thread was here first
        return
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}.get(word)
    if number is not None:
        os.kill(os.getpid(), number)
