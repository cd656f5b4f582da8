"""A process that logs is killed at any moment; nothing that it called safe is lost."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleetrec._native import TableLog
from making_tables import same
from multiprocess.logging_child import make_table, recover, segments_in, train_step

TESTS = Path(__file__).parents[1]


def run_and_kill(folder, delay_s):
    """Let a child work for a while after its first acknowledgement; returns the last one."""
    command = [sys.executable, "-m", "multiprocess.logging_child", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TESTS) as child:
        first = child.stdout.readline()
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


def check_rounds(tmp_path, num_rounds):
    rng = random.Random(5)
    straight = Straight(tmp_path)
    folder = tmp_path / "log"
    folder.mkdir()
    num_torn = 0
    for _ in range(num_rounds):
        acknowledged = run_and_kill(folder, rng.uniform(0, 0.03))
        table = make_table()
        told = recover(table, folder)
        num_torn += told["torn"] is not None
        assert told["last_lsn"] >= acknowledged
        assert told["requests"] == {3: (0, told["last_lsn"])}
        straight.advance_to(told["last_lsn"])
        assert same(table, straight.table)
    assert len(segments_in(folder)) == num_rounds
    return num_torn


@pytest.mark.multiprocess
def test_nothing_acknowledged_is_lost(tmp_path):
    check_rounds(tmp_path, 12)


@pytest.mark.multiprocess
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_many_rounds(tmp_path):
    check_rounds(tmp_path, 200)
