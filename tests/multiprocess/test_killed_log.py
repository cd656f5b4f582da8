"""A process that logs is killed at any moment; nothing that it called safe is lost."""

import random

import pytest

from making_tables import same
from multiprocess.killing import Straight, run_and_kill
from multiprocess.logging_child import make_table, recover, segments_in


def check_rounds(tmp_path, num_rounds):
    rng = random.Random(5)
    straight = Straight(tmp_path)
    folder = tmp_path / "log"
    folder.mkdir()
    num_torn = 0
    for _ in range(num_rounds):
        acknowledged = run_and_kill("multiprocess.logging_child", folder, rng.uniform(0, 0.03))
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
