"""Any history is replayed exactly; any damage is refused, or is a tail that is reported."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetrec._native import SnapshotError, TableLog, replay_log
from making_tables import content, make_native_table, same, train_and_log

ids = st.lists(st.integers(0, 9) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8)
steps = st.lists(st.tuples(ids, st.lists(st.integers(0, 9), max_size=2), st.booleans()), max_size=8)
admissions = st.sampled_from(
    [
        ("always", 0.0, 0.0, 0.0),
        ("count", 3.0, 0.0, 0.0),
        ("probability", 0.3, 0.0, 0.0),
        ("score", 1.0, -0.5, 1.0),  # falls with shows: the order of impressions matters
    ]
)


@settings(max_examples=60)
@given(admissions, st.sampled_from(["adagrad", "adam", "rmsprop", "ftrl"]), steps)
def test_a_replay_gives_the_live_table_bit_for_bit(admission, optimizer, history):
    def make():
        return make_native_table(admission=admission, optimizer=optimizer)

    live = make()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "1.log"
        log = TableLog(path, [live])
        for now, (seen, evicted, is_committed) in enumerate(history):
            labels = (np.arange(len(seen)) % 3 == 0).astype(np.float32)
            train_and_log(live, log, seen, now=now, labels=labels, evicted=evicted)
            if is_committed:
                log.commit("process")
        log.commit("process")
        copy = make()
        assert replay_log([copy], [path])["last_lsn"] == len(history)
    assert same(copy, live)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A log of three records: its path, where each record ends, the table after each."""
    path = tmp_path_factory.mktemp("small") / "1.log"
    table = make_native_table(dim=1)
    log = TableLog(path, [table])
    ends, contents = [path.stat().st_size], [content(table)]
    for step in range(3):
        train_and_log(table, log, [1, step], evicted=[step - 1])
        log.commit("process")
        ends.append(path.stat().st_size)
        contents.append(content(table))
    return path, ends, contents


def replayed(path, damaged):
    """Return what a replay tells of a damaged log, and the table; None if it is refused."""
    whole = path.read_bytes()
    path.write_bytes(damaged)
    table = make_native_table(dim=1)
    try:
        return replay_log([table], [path]), content(table)
    except SnapshotError as error:
        assert path.name in str(error)
        assert len(table) == 0
        return None
    finally:
        path.write_bytes(whole)


def test_every_flipped_bit_is_refused_or_a_torn_last_record(small):
    path, ends, contents = small
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        outcome = replayed(path, bytes(damaged))
        if bit // 8 < ends[2]:
            assert outcome is None, f"bit {bit}"
            continue
        told, found = outcome
        assert (told["last_lsn"], told["torn"][:2], found) == (2, (path, ends[2]), contents[2])


def test_every_truncation_keeps_the_records_before_it(small):
    path, ends, contents = small
    whole = path.read_bytes()
    for length in range(len(whole)):
        outcome = replayed(path, whole[:length])
        if length < ends[0]:
            assert outcome is None
            continue
        num_whole = sum(end <= length for end in ends[1:])
        told, found = outcome
        assert (told["last_lsn"], found) == (num_whole, contents[num_whole])
        torn = None if length in ends else (path, ends[num_whole])
        assert (told["torn"] and told["torn"][:2]) == torn


@given(st.binary(min_size=1, max_size=200))
def test_garbage_behind_the_records_is_a_torn_tail(small, garbage):
    path, ends, contents = small
    told, found = replayed(path, path.read_bytes() + garbage)
    assert (told["last_lsn"], told["torn"][:2], found) == (3, (path, ends[3]), contents[3])


def test_records_that_are_missing_or_twice_are_refused(small):
    path, ends, _ = small
    whole = path.read_bytes()
    records = [whole[a:b] for a, b in itertools.pairwise(ends)]
    for order in ([0, 2], [1, 2], [0, 0], [1, 0]):
        assert replayed(path, whole[: ends[0]] + b"".join(records[r] for r in order)) is None
