"""Places in the code at which a process can be made to die, for those who try out what it survives.

Without ``FLEETREC_FAULTS`` in the environment, and outside of a job of several processes, to reach
such a place does nothing. The variable names a folder; in it every process of the job has one of
its own, ``server.0`` or ``worker.1``. A file there with the name of a place holds a number and a
word: when the place is reached for that number of times, the file goes, and with ``kill`` the
process too; ``note`` only tells, by the file that is gone, that the process came by.
"""

import functools
import os
import signal
import threading
from pathlib import Path

from fleetrec.core.env import read_faults_path


def fault_point(place: str) -> None:
    """Come by a place; that may be the end."""
    folder = _folder()
    if folder is not None:
        _trigger(folder / place)


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
        staging.replace(order)  # other threads never see half of it
        return
    try:
        order.unlink()
    except FileNotFoundError:  # another thread was here first
        return
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
