"""A store writes itself into files and goes on from them as if nothing had happened."""

import dataclasses

import numpy as np
import pytest
import torch

from fleetrec.core.errors import CheckpointError, MismatchError
from fleetrec.embedding import sharding
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import Chain
from fleetrec.embedding.snapshot import find_rows, live_candidates, live_rows
from fleetrec.embedding.table import Admission, Initializer, RowOptimizer, TableConfig
from making import columns_of, stored_table

TABLE = TableConfig(name="t", dim=3, admission=Admission(kind="count", threshold=2))
ADAM = RowOptimizer(name="adam")


def make_store(table=TABLE, optimizer=ADAM, *, seed=0):
    return NativeStore(table, optimizer, seed=seed)


def train(store, *, steps, first=0, num_ids=40):
    """See and move ids, and evict some in every third step."""
    for step in range(first, first + steps):
        rng = np.random.default_rng(step)
        ids = torch.from_numpy(rng.integers(0, num_ids, 12))
        store.pull(ids, create=True)
        store.push(ids, torch.from_numpy(rng.normal(size=(12, 3)).astype(np.float32)), lr=0.1)
        if step % 3 == 2:
            store.table.evict(rng.integers(0, num_ids, 4))


def write(store, directory, parent=None):
    written = store.write(directory, parent=parent)
    written.commit()
    return written


def write_chain(store, folder, *, num_deltas, first=0):
    """Write a base and deltas with five steps between; returns the table they hold."""
    directories = [folder / "base"]
    written = write(store, directories[0])
    for number in range(num_deltas):
        train(store, steps=5, first=first + 5 * number)
        directories.append(folder / f"delta{number}")
        written = write(store, directories[-1], parent="../before")
    return stored_table(*directories, name="t", written=written)


def columns(store, folder):
    return columns_of(stored_table(folder, name="t", written=write(store, folder)))


def check_equal(one, other, tmp_path):
    want, got = columns(one, tmp_path / "one"), columns(other, tmp_path / "other")
    assert want.keys() == got.keys()
    assert all(np.array_equal(want[name], got[name]) for name in want)


@pytest.mark.parametrize("num_deltas", [0, 1, 3])
def test_a_store_goes_on_exactly_from_a_chain(tmp_path, num_deltas):
    straight, resumed = make_store(), make_store()
    train(straight, steps=5)
    train(resumed, steps=2, first=50)
    stored = write_chain(straight, tmp_path, num_deltas=num_deltas, first=5)
    resumed.load(stored)
    assert resumed.table.stats()["created"] == stored.record.created > stored.record.rows
    for store in (straight, resumed):
        train(store, steps=10, first=100)
    check_equal(straight, resumed, tmp_path)


def test_a_loaded_store_continues_the_chain(tmp_path):
    straight, resumed = make_store(), make_store()
    train(straight, steps=5)
    stored = write_chain(straight, tmp_path, num_deltas=1, first=5)
    resumed.load(stored)
    train(resumed, steps=5, first=20)
    written = write(resumed, tmp_path / "next", parent="../delta0")
    assert written.record.parent.fingerprint == stored.record.fingerprint
    again = make_store()
    directories = (*stored.chain.directories, tmp_path / "next")
    again.load(stored_table(*directories, name="t", written=written))
    check_equal(resumed, again, tmp_path)


def test_a_delta_is_smaller_than_its_base(tmp_path):
    store = make_store()
    train(store, steps=50, num_ids=1000)
    write(store, tmp_path / "base")
    train(store, steps=1, first=99, num_ids=1000)
    write(store, tmp_path / "delta", parent="../base")
    sizes = [sum(p.stat().st_size for p in (tmp_path / n).iterdir()) for n in ("base", "delta")]
    assert sizes[1] < sizes[0] / 2


def test_what_is_not_committed_is_in_the_next_delta(tmp_path):
    store, loaded = make_store(), make_store()
    train(store, steps=5)
    write(store, tmp_path / "base")
    train(store, steps=5, first=5)
    store.write(tmp_path / "lost", parent="../base")
    written = write(store, tmp_path / "delta", parent="../base")
    chain = (tmp_path / "base", tmp_path / "delta")
    loaded.load(stored_table(*chain, name="t", written=written))
    check_equal(store, loaded, tmp_path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 1}, "salt was "),
        ({"optimizer": RowOptimizer(name="sgd")}, "optimizer was 'adam', now it is 'sgd'"),
        (
            {"optimizer": RowOptimizer(name="adam", hyperparameters={"beta1": 0.5})},
            r"hyperparameters was .*'beta1': 0.9.* now it is .*'beta1': 0.5",
        ),
        (
            {"optimizer": RowOptimizer(name="adam", guards={"l2": 0.5})},
            r"guards was {}, now it is {'l2': 0.5}",
        ),
        ({"table": dataclasses.replace(TABLE, dim=4)}, "dim was 3, now it is 4"),
        ({"table": dataclasses.replace(TABLE, num_rows=99)}, "num_rows was None, now it is 99"),
        (
            {"table": dataclasses.replace(TABLE, num_rows=99, out_of_range="hash")},
            "out_of_range was 'error', now it is 'hash'",
        ),
        (
            {"table": dataclasses.replace(TABLE, initializer=Initializer(scale=1.0))},
            "initializer was",
        ),
        (
            {"table": dataclasses.replace(TABLE, admission=Admission())},
            "admission was {'kind': 'count', 'threshold': 2.0.* now it is {'kind': 'always'",
        ),
    ],
)
def test_what_would_not_go_on_equally_is_refused_by_name(tmp_path, other, message):
    store, loaded = make_store(), make_store(**other)
    train(store, steps=3)
    with pytest.raises(
        MismatchError, match=rf"base: table t does not match this table: .*{message}"
    ):
        loaded.load(write_chain(store, tmp_path, num_deltas=0))
    assert len(loaded) == 0


def test_files_that_are_not_those_of_the_manifest_are_refused(tmp_path):
    store, other, loaded = make_store(), make_store(), make_store()
    train(store, steps=3)
    train(other, steps=4)
    write(other, tmp_path / "other")
    stored = stored_table(tmp_path / "other", name="t", written=write(store, tmp_path / "base"))
    with pytest.raises(CheckpointError, match="these are not the files of the manifest"):
        loaded.load(stored)
    with pytest.raises(CheckpointError, match="it was replaced or is damaged"):
        loaded.load_rows(stored)
    assert len(loaded) == 0


@pytest.mark.parametrize("load", ["load", "load_rows"])
def test_a_damaged_file_leaves_the_store_empty(tmp_path, load):
    store, loaded = make_store(), make_store()
    train(store, steps=3)
    stored = write_chain(store, tmp_path, num_deltas=1)
    (path,) = (tmp_path / "base").iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"base/00000-of-00001.snap: at byte \d+: damaged"):
        getattr(loaded, load)(stored)
    assert len(loaded) == 0


@pytest.mark.parametrize("num_rows", [None, 100])
def test_rows_are_taken_up_whatever_the_optimizer_and_the_range(tmp_path, num_rows):
    store = make_store()
    train(store, steps=5)
    stored = write_chain(store, tmp_path, num_deltas=2, first=5)
    table = TableConfig(name="t", dim=3, num_rows=num_rows)
    loaded = make_store(table, RowOptimizer(name="adagrad"), seed=9)
    loaded.load_rows(stored)
    want, got = store.snapshot(), loaded.snapshot()
    for name in ("ids", "rows", "shows", "clicks"):
        assert torch.equal(want[name], got[name]), name
    assert not got["state"].any()
    assert not got["last_seen"].any()
    assert not len(got["candidate_ids"])


def test_rows_out_of_the_range_are_refused(tmp_path):
    store, loaded = make_store(), make_store(TableConfig(name="t", dim=3, num_rows=5))
    train(store, steps=5)
    with pytest.raises(CheckpointError, match=r"base: table t: id \d+ lies out of the table's"):
        loaded.load_rows(write_chain(store, tmp_path, num_deltas=0))
    assert len(loaded) == 0


def test_rows_of_another_width_are_refused(tmp_path):
    store, loaded = make_store(), make_store(TableConfig(name="t", dim=5))
    with pytest.raises(CheckpointError, match="table t holds rows of width 3, the model has 5"):
        loaded.load_rows(write_chain(store, tmp_path, num_deltas=0))


def test_a_store_is_written_as_it_was_cut_while_it_is_trained(tmp_path):
    store, copy = make_store(), make_store()
    for one in (store, copy):
        write(one, tmp_path / f"base {id(one)}")
        train(one, steps=9)
    cut, want = store.cut(), write(copy, tmp_path / "copy", parent="../base").record
    train(store, steps=6, first=9)
    record = cut.write(tmp_path / "cut", parent="../base", num_threads=1)
    assert record == want
    (one, other) = (tmp_path / name / "00000-of-00001.snap" for name in ("cut", "copy"))
    assert one.read_bytes() == other.read_bytes()


def test_steps_between_cut_and_commit_are_in_the_next_delta(tmp_path):
    store, loaded = make_store(), make_store()
    train(store, steps=9)
    cut = store.cut()
    train(store, steps=6, first=9)
    cut.write(tmp_path / "base", parent=None)
    train(store, steps=6, first=15)
    cut.commit()
    written = write(store, tmp_path / "delta", parent="../base")
    stored = stored_table(tmp_path / "base", tmp_path / "delta", name="t", written=written)
    loaded.load(stored)
    check_equal(store, loaded, tmp_path)


def test_a_store_may_have_several_cuts_that_are_not_written(tmp_path):
    store = make_store()
    train(store, steps=4)
    first = store.cut()
    train(store, steps=9, first=4)
    second = store.cut()
    store.cut().close()
    for name, cut in {"second": second, "first": first}.items():
        assert cut.write(tmp_path / name, parent=None).rows == cut.stats["rows"]
    assert first.stats != second.stats


@pytest.fixture
def many_shards(monkeypatch):
    """Tables of several files without millions of rows."""
    monkeypatch.setattr(sharding, "SHARD_BYTES", 64)


def test_large_tables_are_written_and_read_in_several_files(tmp_path, many_shards):
    store, loaded, warm = make_store(), make_store(), make_store()
    train(store, steps=20, num_ids=200)
    num_files = 1 + len(store) * 3 * 4 // 64
    stored = write_chain(store, tmp_path, num_deltas=1)
    assert len(list((tmp_path / "base").iterdir())) == num_files > 5
    loaded.load(stored)
    warm.load_rows(stored)
    assert torch.equal(warm.snapshot()["rows"], store.snapshot()["rows"])
    check_equal(store, loaded, tmp_path)


@pytest.mark.parametrize("num_rows", [None, 300])
def test_single_rows_are_found_in_a_chain(tmp_path, many_shards, num_rows):
    store = make_store(TableConfig(name="t", dim=3, num_rows=num_rows))
    train(store, steps=20, num_ids=200)
    stored = write_chain(store, tmp_path, num_deltas=2, first=20)
    taken = store.snapshot()
    found = find_rows(stored.chain, range(220))
    assert sorted(found) == taken["ids"].tolist()
    for place, one in enumerate(taken["ids"].tolist()):
        assert found[one]["rows"].tolist() == taken["rows"][place].tolist()
        assert found[one]["shows"] == taken["shows"][place]


def test_only_the_shards_of_an_id_are_read(tmp_path, many_shards):
    store = make_store(TableConfig(name="t", dim=3))
    train(store, steps=20, num_ids=200)
    stored = write_chain(store, tmp_path, num_deltas=0)
    paths = sorted((tmp_path / "base").iterdir())
    one = int(next(live_rows(stored.chain))["ids"][0])  # in the first file
    content = bytearray(paths[-1].read_bytes())
    content[-50] ^= 1
    paths[-1].write_bytes(content)
    assert one in find_rows(stored.chain, [one])
    with pytest.raises(CheckpointError, match=paths[-1].name):
        list(live_rows(stored.chain))


def test_missing_and_added_files_are_refused(tmp_path, many_shards):
    store = make_store()
    train(store, steps=20, num_ids=200)
    stored = write_chain(store, tmp_path, num_deltas=0)
    paths = sorted((tmp_path / "base").iterdir())
    paths[2].rename(tmp_path / "kept")
    with pytest.raises(CheckpointError, match=rf"{paths[2].name}: is missing"):
        list(live_rows(stored.chain))
    (tmp_path / "kept").rename(paths[2])
    (tmp_path / "base" / "99999-of-99999.snap").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"99999-of-99999.snap: does not belong"):
        list(live_rows(stored.chain))
    with pytest.raises(CheckpointError, match="holds no snapshot of a table"):
        list(live_candidates(Chain(urls=(str(tmp_path),))))
