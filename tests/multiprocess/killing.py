"""A child that is killed while it works, and the table that it should have had."""

import subprocess
import sys
import time
from pathlib import Path

from fleetrec._native import TableLog
from multiprocess.logging_child import make_table, train_step

TESTS = Path(__file__).parents[1]


def run_and_kill(child_module, folder, delay_s, *, num_waited_for=1):
    """Let a child work for a while after some acknowledgements; returns the last one."""
    command = [sys.executable, "-m", child_module, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TESTS) as child:
        first = b"".join(child.stdout.readline() for _ in range(num_waited_for))
        time.sleep(delay_s)  # the moment is the point: there is no condition to wait for
        child.kill()
        rest = child.stdout.read()
    assert child.returncode == -9, "the child ended by itself"
    return int((first + rest).rpartition(b"\n")[0].rpartition(b"\n")[2])


class Straight:
    """The table of a run that is never interrupted."""

    def __init__(self, folder):
        self.table = make_table()
        self._log = TableLog(folder / "straight", [self.table])

    def advance_to(self, last_step):
        for step in range(self._log.last_lsn + 1, last_step + 1):
            train_step(self.table, self._log, step)
