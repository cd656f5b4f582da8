"""Snapshots of tables: what is written is read back, and what is damaged is refused."""

import resource
import signal

import numpy as np
import pytest

from fleetrec._native import Cut, ShardFile, SnapshotError, read_snapshot
from making_tables import columns, make_native_table, push, same, train


def write(table, directory, kind="base", *, num_shards=1, commit=True, lsn=0):
    directory.mkdir()
    cut = Cut(table)
    stats = cut.write(directory, kind=kind, num_shards=num_shards, lsn=lsn)
    if commit:
        cut.commit()
    return stats


def loaded(*directories, **options):
    table = make_native_table(**options)
    read_snapshot(table, directories)
    return table


def test_a_base_restores_every_row_and_candidate(tmp_path):
    table = make_native_table(admission=("count", 2.0, 0.0, 0.0))
    train(table, [1, 2, 2, -7, -7, 9], now=5)
    stats = write(table, tmp_path / "base", num_shards=3)
    assert (stats["rows"], stats["tombstones"], stats["candidates"]) == (2, 0, 2)
    copy = loaded(tmp_path / "base", admission=("count", 2.0, 0.0, 0.0))
    assert same(copy, table)
    train(copy, [1], now=5)  # the second impression of 1 admits it
    assert copy.stats()["rows"] == 3


def test_equal_tables_give_equal_bytes(tmp_path):
    one, other = make_native_table(), make_native_table()
    train(one, list(range(100)))
    train(other, list(reversed(range(100))))
    write(one, tmp_path / "one")
    write(other, tmp_path / "other")
    name = "00000-of-00001.snap"
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_delta_holds_only_what_changed(tmp_path):
    table = make_native_table()
    train(table, list(range(100)))
    write(table, tmp_path / "base")
    push(table, [3])
    table.evict(np.array([5, 6]))
    train(table, [6, 200])
    stats = write(table, tmp_path / "delta", "delta", num_shards=2)
    assert (stats["rows"], stats["tombstones"]) == (3, 1)
    assert same(loaded(tmp_path / "base", tmp_path / "delta"), table)


def test_a_gradient_behind_a_cut_is_in_the_next_delta(tmp_path):
    table = make_native_table()
    lookup, vectors = train(table, [1, 2], step=False)
    write(table, tmp_path / "base")
    lookup.apply(np.ones_like(vectors), lr=0.1)
    stats = write(table, tmp_path / "delta", "delta")
    assert stats["rows"] == 2
    assert same(loaded(tmp_path / "base", tmp_path / "delta"), table)


def test_what_changes_between_cut_and_commit_is_in_the_next_delta(tmp_path):
    table = make_native_table()
    train(table, [1, 2, 3, 4])
    write(table, tmp_path / "base")
    table.evict(np.array([1]))
    cut = Cut(table)
    push(table, [2])
    table.evict(np.array([3]))
    (tmp_path / "first").mkdir()
    cut.write(tmp_path / "first", kind="delta")
    push(table, [4])
    train(table, [3])
    cut.commit()
    stats = write(table, tmp_path / "second", "delta")
    assert (stats["rows"], stats["tombstones"]) == (3, 0)
    chain = [tmp_path / name for name in ("base", "first", "second")]
    assert same(loaded(*chain), table)


def test_a_snapshot_that_is_not_committed_loses_nothing(tmp_path):
    table = make_native_table()
    train(table, [1, 2, 3])
    write(table, tmp_path / "base")
    push(table, [2])
    table.evict(np.array([3]))
    write(table, tmp_path / "lost", "delta", commit=False)
    stats = write(table, tmp_path / "delta", "delta")
    assert (stats["rows"], stats["tombstones"]) == (1, 1)
    assert same(loaded(tmp_path / "base", tmp_path / "delta"), table)


def test_a_failed_write_leaves_no_file_and_loses_nothing(tmp_path):
    table = make_native_table()
    train(table, list(range(5000)))
    (tmp_path / "full").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            Cut(table).write(tmp_path / "full", kind="base", num_shards=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list((tmp_path / "full").iterdir())
    write(table, tmp_path / "base")
    assert same(loaded(tmp_path / "base"), table)


def test_files_are_never_overwritten(tmp_path):
    table = make_native_table()
    write(table, tmp_path / "base")
    with pytest.raises(FileExistsError) as caught:
        Cut(table).write(tmp_path / "base", kind="base")
    assert caught.value.filename == str(tmp_path / "base" / "00000-of-00001.snap")
    assert (tmp_path / "base" / "00000-of-00001.snap").exists()


def test_a_table_that_was_read_continues_the_chain(tmp_path):
    table = make_native_table()
    train(table, [1, 2, 3])
    write(table, tmp_path / "base", num_shards=5, lsn=17)
    copy = make_native_table()
    assert read_snapshot(copy, [tmp_path / "base"])["lsn"] == 17
    push(copy, [2])
    assert write(copy, tmp_path / "delta", "delta")["rows"] == 1
    assert same(loaded(tmp_path / "base", tmp_path / "delta"), copy)


def test_a_delta_needs_a_parent(tmp_path):
    table = make_native_table()
    (tmp_path / "delta").mkdir()
    with pytest.raises(RuntimeError, match="needs a base"):
        Cut(table).write(tmp_path / "delta", kind="delta")
    write(table, tmp_path / "base")
    table.clear()  # all rows are new: the chain is broken
    with pytest.raises(RuntimeError, match="needs a base"):
        Cut(table).write(tmp_path / "delta", kind="delta")


def test_a_cut_is_committed_once_and_after_its_snapshot(tmp_path):
    table = make_native_table()
    first = Cut(table)
    with pytest.raises(RuntimeError, match="after its snapshot is written"):
        first.commit()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first.write(tmp_path / "first", kind="base")
    second = Cut(table)
    second.write(tmp_path / "second", kind="base")
    first.commit()
    with pytest.raises(RuntimeError, match="another cut was committed"):
        second.commit()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "u"}, "holds table t, expected u"),
        ({"dim": 3}, "rows of width 2, expected 3"),
        ({"optimizer": "sgd"}, "optimizer adagrad, expected sgd"),
        ({"num_rows": 9}, "ids any, expected below 9"),
    ],
)
def test_a_snapshot_of_another_table_is_refused(tmp_path, options, message):
    write(make_native_table(), tmp_path / "base")
    with pytest.raises(SnapshotError, match=message):
        loaded(tmp_path / "base", **options)


def test_missing_added_and_foreign_shards_are_refused(tmp_path):
    table = make_native_table()
    train(table, list(range(50)))
    write(table, tmp_path / "a", num_shards=2)
    push(table, [1, 2, 3])
    write(table, tmp_path / "b", num_shards=2)
    second = tmp_path / "a" / "00001-of-00002.snap"
    content = second.read_bytes()
    second.write_bytes((tmp_path / "b" / "00001-of-00002.snap").read_bytes())
    with pytest.raises(SnapshotError, match=r"00001-of-00002.snap: does not belong"):
        loaded(tmp_path / "a")
    second.unlink()
    with pytest.raises(SnapshotError, match=r"00001-of-00002.snap: is missing"):
        loaded(tmp_path / "a")
    second.write_bytes(content)
    (tmp_path / "a" / "00002-of-00002.snap").write_bytes(content)
    with pytest.raises(SnapshotError, match=r"00002-of-00002.snap: does not belong"):
        loaded(tmp_path / "a")
    with pytest.raises(SnapshotError, match="holds no snapshot"):
        loaded(tmp_path)
    with pytest.raises(SnapshotError, match="cannot be read"):
        loaded(tmp_path / "nowhere")


def test_a_chain_out_of_order_is_refused_and_leaves_the_table_empty(tmp_path):
    table = make_native_table()
    train(table, [1, 2, 3])
    write(table, tmp_path / "base")
    for name in ("first", "second"):
        push(table, [1])
        write(table, tmp_path / name, "delta")
    base, first, second = (tmp_path / name for name in ("base", "first", "second"))
    for chain, message in [
        ([first], "expected a base first"),
        ([base, second], "is a delta of 2"),
        ([base, second, first], "is a delta of 2"),
        ([base, base], "expected a delta"),
        ([base, first, first], "is a delta of 1"),
    ]:
        copy = make_native_table()
        train(copy, [5])
        with pytest.raises(SnapshotError, match=message):
            read_snapshot(copy, chain)
        assert len(copy) == 0


def test_a_delta_of_another_base_of_the_same_version_is_refused(tmp_path):
    one, other = make_native_table(), make_native_table()
    train(one, [1])
    train(other, [2])
    write(one, tmp_path / "one")
    write(other, tmp_path / "other")
    push(other, [2])
    write(other, tmp_path / "delta", "delta")
    with pytest.raises(SnapshotError, match="the snapshot before it is 1"):
        loaded(tmp_path / "one", tmp_path / "delta")


def test_blocks_are_full_and_many(tmp_path):
    table = make_native_table(dim=1)
    train(table, list(range(10_000)))
    stats = write(table, tmp_path / "base")
    row_bytes, header_bytes = 20 + 4 * 2, 92 + len("t") + len("adagrad")
    assert stats["bytes"] == header_bytes + 3 * 16 + 10_000 * row_bytes + 40
    assert same(loaded(tmp_path / "base", dim=1), table)


def test_a_table_with_a_range_round_trips(tmp_path):
    table = make_native_table(num_rows=5000, admission=("count", 2.0, 0.0, 0.0))
    train(table, [0, 0, 4999, 4999, *range(2000)])
    table.evict(np.array([0]))
    write(table, tmp_path / "base", num_shards=1024)
    options = {"num_rows": 5000, "admission": ("count", 2.0, 0.0, 0.0)}
    copy = loaded(tmp_path / "base", **options)
    assert same(copy, table)
    train(copy, list(range(1, 2000)))
    train(table, list(range(1, 2000)))
    assert same(copy, table)
    assert len(copy) == 2000


def test_a_lookup_notices_that_its_rows_were_replaced(tmp_path):
    table = make_native_table()
    write(table, tmp_path / "base")
    lookup, vectors = train(table, [1], step=False)
    read_snapshot(table, [tmp_path / "base"])
    with pytest.raises(RuntimeError, match="removed from a table under a lookup"):
        lookup.pool(vectors)
    with pytest.raises(RuntimeError, match="removed from a table under a lookup"):
        lookup.apply(np.ones_like(vectors), lr=0.1)


def blocks_of(path):
    shard = ShardFile(path)
    found = []
    while (block := shard.next_block()) is not None:
        found.append(block)
    assert shard.next_block() is None
    return shard, found


def test_a_file_is_read_block_by_block(tmp_path):
    table = make_native_table(admission=("count", 2.0, 0.0, 0.0))
    train(table, [1, 1, 2, 2, -7, -7, 9], now=5)
    base = write(table, tmp_path / "base")
    table.evict(np.array([2]))
    push(table, [1])
    write(table, tmp_path / "delta", "delta")
    shard, found = blocks_of(tmp_path / "delta" / "00000-of-00001.snap")
    assert [kind for kind, _ in found] == ["tombstones", "rows", "candidates"]
    tombstones, rows, candidates = (block for _, block in found)
    assert tombstones["ids"].tolist() == [2]
    taken = columns(table)
    assert rows["ids"].tolist() == [1]
    for name in ("rows", "state", "shows", "clicks", "last_seen"):
        assert rows[name].tolist() == taken[name][:1].tolist()
    assert (candidates["ids"].tolist(), candidates["shows"].tolist()) == ([9], [1])
    assert shard.header == {
        "kind": "delta",
        "shard": 0,
        "num_shards": 1,
        "dim": 2,
        "num_rows": None,
        "version": 2,
        "parent_version": 1,
        "parent_fingerprint": base["fingerprint"],
        "table": "t",
        "optimizer": "adagrad",
    }


def test_a_damaged_block_is_not_handed_out(tmp_path):
    table = make_native_table()
    train(table, list(range(5000)))
    write(table, tmp_path / "base")
    path = tmp_path / "base" / "00000-of-00001.snap"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    shard = ShardFile(path)
    assert len(shard.next_block()[1]["ids"]) == 4096
    with pytest.raises(SnapshotError, match="the checksum of this block is wrong"):
        shard.next_block()
