"""Threads that work while others train."""

import os
import threading

from fleetrec.core.background import NICE, yield_to_training


def test_only_the_calling_thread_yields():
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    found = []

    def work():
        yield_to_training()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [max(before, NICE)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
