"""What a cut writes is the table as it was at the cut, bit for bit, whatever happens after it."""

import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetrec._native import Cut, read_snapshot
from making_tables import make_native_table, push, same, train

ids = st.lists(st.integers(0, 30) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8)
change = st.tuples(
    st.sampled_from(["train", "push", "write", "count", "evict", "add"]), ids
) | st.tuples(st.sampled_from(["unseen", "low", "beyond", "clear"]), st.just([]))
admissions = st.sampled_from([("always", 0.0, 0.0, 0.0), ("count", 2.0, 0.0, 0.0)])


class Changes:
    """Does to a table all that other threads may do to it."""

    def __init__(self, table, num_rows=None):
        self._table = table
        self._num_rows = num_rows
        self._now = 0

    def apply(self, operations):
        for verb, what in operations:
            self._now += 1
            if self._num_rows is not None:
                what = [one % self._num_rows for one in what]
            if what:
                self._change_rows(verb, what)
            else:
                self._evict(verb)

    def _change_rows(self, verb, what):
        table, ids_N = self._table, np.unique(np.array(what, np.int64))
        rows_ND = np.linspace(-1, 1, 2 * len(ids_N), dtype=np.float32).reshape(-1, 2)
        counts_N = np.ones(len(ids_N), np.uint32)
        match verb:
            case "train":
                labels = np.arange(len(what), dtype=np.float32) % 2
                train(table, what, now=self._now, labels=labels)
            case "push":
                push(table, what)
            case "write":
                table.write(ids_N, rows_ND)
            case "count":
                table.count_impressions(ids_N, counts_N, counts_N, now=self._now)
            case "evict":
                table.evict(ids_N)
            case "add":
                is_new_N = table.read(ids_N, as_new=False)[1] == 0
                table.add_rows(ids=ids_N[is_new_N], rows=rows_ND[is_new_N])

    def _evict(self, verb):
        match verb:
            case "unseen":
                self._table.evict_unseen(before=self._now // 2)
            case "low":
                self._table.evict_low_scores(
                    decay=0.5, threshold=0.3, show_weight=1, click_weight=1
                )
            case "beyond":
                self._table.evict_beyond(capacity=4)
            case "clear":
                self._table.clear()


def write(cut, directory, kind, num_shards):
    directory.mkdir()
    cut.write(directory, kind=kind, num_shards=num_shards)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@settings(max_examples=80)
@given(
    admissions,
    st.sampled_from([None, 3000]),
    st.sampled_from(["base", "delta"]),
    st.sampled_from([1, 3]),
    st.lists(change, max_size=6),
    st.lists(change, max_size=6),
    st.lists(change, max_size=6),
)
def test_a_cut_writes_what_a_copy_made_at_the_cut_writes(
    admission, num_rows, kind, num_shards, first, before, after
):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = []
        for twin in ("live", "copy"):
            table = make_native_table(admission=admission, num_rows=num_rows)
            changes = Changes(table, num_rows)
            changes.apply(first)
            base = Cut(table)
            write(base, folder / f"{twin} parent", "base", 1)
            base.commit()
            changes.apply(before)
            has_parent = all(verb != "clear" for verb, _ in before)
            cut, stats = Cut(table), table.stats()
            if twin == "live":  # the copy is written before anything changes
                changes.apply(after)
            its = kind if has_parent else "base"
            written.append(write(cut, folder / twin, its, num_shards))
            assert cut.stats == {key: stats[key] for key in cut.stats}
        assert written[0] == written[1]


@settings(max_examples=40)
@given(admissions, st.lists(st.lists(change, max_size=5), min_size=1, max_size=4))
def test_deltas_follow_cuts_after_which_the_table_went_on(admission, rounds):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = make_native_table(admission=admission)
        changes, chain = Changes(table), []
        for number, operations in enumerate([*rounds, []]):
            cut = Cut(table)
            kept = [(verb, what) for verb, what in operations if verb != "clear"]
            changes.apply(kept[::2])
            chain.append(folder / str(number))
            write(cut, chain[-1], "delta" if number else "base", 1 + number % 3)
            changes.apply(kept[1::2])  # behind the write, before the commit
            cut.commit()
        read = make_native_table(admission=admission)
        read_snapshot(read, chain)
        assert same(read, table)


def test_other_threads_change_the_table_while_it_is_written(tmp_path):
    table = make_native_table(dim=8, optimizer="adam")
    ids_N = np.arange(50_000)
    train(table, ids_N)
    copy = table.snapshot()
    cut = Cut(table)
    failures = []

    def go_on():
        rng = np.random.default_rng(0)
        try:
            while not is_written.is_set():
                some_N = rng.choice(ids_N, 2000, replace=False)
                table.push(some_N, np.ones((2000, 8), np.float32), lr=0.1)
                table.evict(some_N[:100])
                table.pull(some_N[:100] + 1_000_000, create=True)
        except Exception as error:  # noqa: BLE001 (told below)
            failures.append(error)

    is_written = threading.Event()
    trainer = threading.Thread(target=go_on)
    trainer.start()
    cut.write(tmp_path, kind="base", num_shards=7, num_threads=2)
    is_written.set()
    trainer.join()
    assert not failures
    read = make_native_table(dim=8, optimizer="adam")
    read_snapshot(read, [tmp_path])
    for name, column in read.snapshot().items():
        assert column.tobytes() == copy[name].tobytes(), name


def test_two_cuts_of_a_table_are_written_in_any_order(tmp_path):
    table = make_native_table()
    cuts, copies = [], []
    for ids in ([1, 2, 3], [2, 3, 4], [1, 5]):
        train(table, ids)
        cuts.append(Cut(table))
        copies.append(table.snapshot())
    train(table, [1, 2, 3, 4, 5, 6])
    for index in (1, 2, 0):
        write(cuts[index], tmp_path / str(index), "base", 2)
        read = make_native_table()
        read_snapshot(read, [tmp_path / str(index)])
        for name, column in read.snapshot().items():
            assert column.tobytes() == copies[index][name].tobytes(), name


def test_a_cut_is_written_once_and_may_be_let_go(tmp_path):
    table = make_native_table()
    first = Cut(table)
    first.release()
    with pytest.raises(RuntimeError, match="written or released before"):
        first.write(tmp_path, kind="base")
    second = Cut(table)
    del second
    third = Cut(table)
    with pytest.raises(FileNotFoundError):
        third.write(tmp_path / "nowhere", kind="base")
    Cut(table).write(tmp_path, kind="base")


def test_a_base_may_be_written_after_another_cut_was_committed(tmp_path):
    table = make_native_table()
    train(table, [1, 2])
    first = Cut(table)
    write(first, tmp_path / "first", "base", 1)
    second = Cut(table)
    first.commit()
    write(second, tmp_path / "second", "base", 1)
    with pytest.raises(RuntimeError, match="another cut was committed"):
        second.commit()
