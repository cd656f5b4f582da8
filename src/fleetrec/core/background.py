"""Threads that work while others train."""

import contextlib
import os
import threading

NICE = 10  # of 19; the processors are shared in proportion, no thread starves


def yield_to_training() -> None:
    """Lower the priority of the calling thread, so that training steps come first.

    The threads that it starts inherit this. Nothing happens where threads have no priority.
    """
    with contextlib.suppress(OSError, AttributeError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
