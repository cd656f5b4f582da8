"""A process that logs and writes snapshots is killed; nothing that it called safe is lost."""

import random

import pytest

from making_tables import same
from multiprocess.killing import Straight, run_and_kill
from multiprocess.logging_child import make_table, segments_in
from multiprocess.snapshot_child import STEPS_PER_SNAPSHOT, recover, snapshots_in


def check_rounds(tmp_path, num_rounds):
    """Kill so many children; return how many died while they wrote a snapshot."""
    rng = random.Random(6)
    straight = Straight(tmp_path)
    folder = tmp_path / "state"
    folder.mkdir()
    num_unfinished = 0
    for _ in range(num_rounds):
        acknowledged = run_and_kill(
            "multiprocess.snapshot_child",
            folder,
            rng.uniform(0, 0.03),
            # Often more than lie between two snapshots: also a slow machine gets past one.
            num_waited_for=rng.randint(1, 2 * STEPS_PER_SNAPSHOT),
        )
        num_unfinished += any(path.name.startswith(".lsn-") for path in folder.iterdir())
        table = make_table()
        told = recover(table, folder)
        assert told["last_lsn"] >= acknowledged
        straight.advance_to(told["last_lsn"])
        assert same(table, straight.table)
    assert snapshots_in(folder)
    assert len(segments_in(folder)) < num_rounds, "no segment was ever dropped"
    return num_unfinished


@pytest.mark.multiprocess
def test_nothing_acknowledged_is_lost_while_snapshots_are_written(tmp_path):
    check_rounds(tmp_path, 12)


@pytest.mark.multiprocess
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_many_rounds_of_snapshots(tmp_path):
    assert check_rounds(tmp_path, 200) > 0, "no child died while it wrote a snapshot"
