"""Any history of a table survives any chain of snapshots; no damage passes unnoticed."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetrec._native import Cut, SnapshotError, read_snapshot
from making_tables import content, make_native_table, push, same, train

ids = st.lists(st.integers(0, 12) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6)
shards = st.sampled_from([1, 2, 3, 7, 1024])
operation = (
    st.tuples(st.just("train"), ids)
    | st.tuples(st.just("push"), ids)
    | st.tuples(st.just("evict"), ids)
    | st.tuples(st.just("delta"), shards)
    | st.tuples(st.just("failed delta"), shards)
    | st.tuples(st.just("reload"), st.none())
)
admissions = st.sampled_from(
    [("always", 0.0, 0.0, 0.0), ("count", 2.0, 0.0, 0.0), ("probability", 0.5, 0.0, 0.0)]
)


class History:
    """A live table and the chain of snapshots that follows it."""

    def __init__(self, folder, admission, optimizer, num_shards):
        self._folder = folder
        self._make = lambda: make_native_table(admission=admission, optimizer=optimizer)
        self.table = self._make()
        self.chain = []
        self._now = 0
        self._save("base", num_shards)

    def _save(self, kind, num_shards):
        directory = self._folder / str(len(self.chain))
        directory.mkdir()
        cut = Cut(self.table)
        cut.write(directory, kind=kind, num_shards=num_shards)
        cut.commit()
        self.chain.append(directory)

    def apply(self, verb, what):
        self._now += 1
        if verb == "train":
            labels = np.arange(len(what), dtype=np.float32) % 2
            train(self.table, what, now=self._now, labels=labels)
        elif verb == "push":
            push(self.table, what)
        elif verb == "evict":
            self.table.evict(np.array(what, np.int64))
        elif verb == "delta":
            self._save("delta", what)
        elif verb == "failed delta":
            with tempfile.TemporaryDirectory() as directory:
                Cut(self.table).write(directory, kind="delta", num_shards=what)
        else:
            self._save("delta", 1)
            self.table = self.reloaded()

    def reloaded(self):
        table = self._make()
        read_snapshot(table, self.chain)
        return table


@settings(max_examples=60)
@given(
    admissions,
    st.sampled_from(["adagrad", "adam", "sgd", "ftrl"]),
    shards,
    st.lists(operation, max_size=12),
)
def test_base_and_deltas_give_the_live_table(admission, optimizer, num_shards, operations):
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), admission, optimizer, num_shards)
        for verb, what in operations:
            history.apply(verb, what)
        history.apply("delta", 2)
        assert same(history.reloaded(), history.table)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A base and a delta with all kinds of blocks, and the file names of both."""
    folder = tmp_path_factory.mktemp("small")
    history = History(folder, ("count", 2.0, 0.0, 0.0), "adagrad", 1)
    history.apply("train", [1, 1, 2, 2, 3, 3, 4])
    history.apply("evict", [2])
    history.apply("delta", 1)
    name = "00000-of-00001.snap"
    return history, [directory / name for directory in history.chain]


def refused(history, path, damaged):
    """Tell whether reading fails cleanly with the file in this state."""
    whole = path.read_bytes()
    path.write_bytes(damaged)
    table = make_native_table(admission=("count", 2.0, 0.0, 0.0))
    train(table, [8, 8])
    try:
        read_snapshot(table, history.chain)
    except SnapshotError as error:
        return path.name in str(error) and len(table) == 0 and not table.stats()["candidates"]
    else:
        return False
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("which", [0, 1])
def test_every_flipped_bit_is_refused(small, which):
    history, paths = small
    whole = paths[which].read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        assert refused(history, paths[which], bytes(damaged)), f"bit {bit} of {len(whole)} bytes"


@pytest.mark.parametrize("which", [0, 1])
def test_every_truncation_and_every_addition_is_refused(small, which):
    history, paths = small
    whole = paths[which].read_bytes()
    for length in range(len(whole)):
        assert refused(history, paths[which], whole[:length]), f"{length} of {len(whole)} bytes"
    assert refused(history, paths[which], whole + b"\0")
    assert refused(history, paths[which], whole + whole)


@given(st.binary(max_size=300))
def test_garbage_is_refused(small, garbage):
    history, paths = small
    assert refused(history, paths[1], garbage)
    assert refused(history, paths[1], paths[1].read_bytes()[:100] + garbage)


def test_the_small_chain_is_sound(small):
    history, _ = small
    assert content(history.reloaded()) == content(history.table)
