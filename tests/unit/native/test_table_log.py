"""The log of tables: replay gives the live table, and damage is told from a torn tail."""

import resource
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fleetrec._native import (
    BatchLookup,
    Cut,
    LogRecord,
    SnapshotError,
    TableLog,
    drop_segments,
    read_snapshot,
    replay_log,
)
from making_tables import make_native_table, same, train, train_and_log

ADMISSION = ("score", 1.5, 0.5, 1.0)


def make_table():
    return make_native_table(admission=ADMISSION, guards={"l2": 0.1, "clip_norm": 0.5})


def write_log(path, num_steps=4):
    table = make_table()
    log = TableLog(path, [table])
    labels = np.array([1, 0, 0, 1], np.float32)
    for step in range(num_steps):
        train_and_log(
            table,
            log,
            [1, 2 + step, 2, -step],
            now=step,
            labels=labels,
            evicted=[2] if step == 1 else [],
        )
    log.commit("process")
    return table


def test_a_replay_gives_the_live_table(tmp_path):
    live = write_log(tmp_path / "1.log")
    table = make_table()
    told = replay_log([table], [tmp_path / "1.log"])
    assert told == {"last_lsn": 4, "applied": 4, "torn": None, "requests": {0: (0, 0)}}
    assert same(table, live)
    assert len(table) > 0 < table.stats()["candidates"]


def test_a_replay_continues_a_snapshot(tmp_path):
    table = make_table()
    log = TableLog(tmp_path / "1.log", [table])
    train_and_log(table, log, [1, 1, 2, 3])
    lsn = train_and_log(table, log, [1, 2, 3, 3])
    log.commit("disk")
    cut = Cut(table)
    cut.write(tmp_path, kind="base", lsn=lsn)
    train_and_log(table, log, [4, 4, 4, 1], evicted=[3])
    log.commit("disk")
    log = TableLog(tmp_path / "2.log", [table], first_lsn=log.last_lsn + 1)
    train_and_log(table, log, [3, 3, 5])
    assert log.commit("disk") == 4

    copy = make_table()
    stats = read_snapshot(copy, [tmp_path])
    segments = [tmp_path / "1.log", tmp_path / "2.log"]
    told = replay_log([copy], segments, after_lsn=stats["lsn"])
    assert (told["last_lsn"], told["applied"]) == (4, 2)
    assert same(copy, table)


def test_what_a_replay_changed_is_in_the_next_delta(tmp_path):
    for name in ("base", "delta"):
        (tmp_path / name).mkdir()
    table = make_table()
    cut = Cut(table)
    cut.write(tmp_path / "base", kind="base")
    cut.commit()
    write_log(tmp_path / "1.log")
    replay_log([table], [tmp_path / "1.log"])
    Cut(table).write(tmp_path / "delta", kind="delta")
    copy = make_table()
    read_snapshot(copy, [tmp_path / "base", tmp_path / "delta"])
    assert same(copy, table)


def test_one_record_covers_several_tables(tmp_path):
    tables = [make_native_table(name=name) for name in ("a", "b")]
    log = TableLog(tmp_path / "1.log", tables)
    lookup = BatchLookup(tables, [(0, 0, "sum"), (1, 1, "mean"), (0, 1, "sqrtn")], [])
    ids, offsets = np.array([1, 2, 2, 3, 3, 4]), np.array([0, 2, 3, 5, 6])
    lookup.find(ids, offsets, 2, training=True, now=3)
    grads = np.arange(12, dtype=np.float32).reshape(2, 6)
    record = LogRecord()
    for table in (0, 1):
        record.add_impressions(table, *lookup.impressions(table), now=3)
    for table, (moved, sums) in enumerate(lookup.apply_returning_grads(grads, lr=0.5)):
        record.add_push(table, moved, sums, lr=0.5)
    log.append(record)
    log.commit("process")
    copies = [make_native_table(name=name) for name in ("a", "b")]
    replay_log(copies, [tmp_path / "1.log"])
    assert all(same(copy, table) for copy, table in zip(copies, tables, strict=True))


LABELS = np.array([1, 0], np.float32)


def look_up(tables):
    """Find the rows of three features in two tables, the second of which is frozen."""
    lookup = BatchLookup(tables, [(0, 0, "sum"), (1, 1, "mean"), (1, 0, "sqrtn")], [1])
    ids, offsets = np.array([1, 2, 2, 3, 3, 4, 1, 1]), np.array([0, 2, 3, 5, 8])
    lookup.find(ids, offsets, 2, training=True, now=3, labels=LABELS)
    return lookup, np.arange(12, dtype=np.float32).reshape(2, 6)


def test_a_lookup_is_logged_as_the_arrays_that_it_tells(tmp_path):
    straight, told = LogRecord(), LogRecord()
    for name, record in (("straight", straight), ("told", told)):
        tables = [make_native_table(name=table, admission=ADMISSION) for table in ("a", "b")]
        lookup, grads = look_up(tables)
        if record is straight:
            lookup.apply_keeping_grads(grads, lr=0.5)
            record.add_lookup(lookup, [0, 1], now=3, lr=0.5, labels=LABELS)
        else:
            for table in (0, 1):
                record.add_impressions(table, *lookup.impressions(table, labels=LABELS), now=3)
            for table, (moved, sums) in enumerate(lookup.apply_returning_grads(grads, lr=0.5)):
                record.add_push(table, moved, sums, lr=0.5)
        log = TableLog(tmp_path / name, tables)
        log.append(record, worker=2, sequence=9)
        log.commit("process")
    assert (tmp_path / "straight").read_bytes() == (tmp_path / "told").read_bytes()


def test_a_lookup_that_kept_nothing_or_went_on_is_refused(tmp_path):
    tables = [make_native_table(name=name) for name in ("a", "b")]
    log = TableLog(tmp_path / "1.log", tables)
    lookup, grads = look_up(tables)
    with pytest.raises(RuntimeError, match="kept no changes"):
        LogRecord().add_lookup(lookup, [0, 1], now=3, lr=0.5)
    lookup.apply(grads, lr=0.5)
    with pytest.raises(RuntimeError, match="kept no changes"):
        LogRecord().add_lookup(lookup, [0, 1], now=3, lr=0.5)
    lookup.apply_keeping_grads(grads, lr=0.5)
    with pytest.raises(ValueError, match="one number per table"):
        LogRecord().add_lookup(lookup, [0], now=3, lr=0.5)
    record = LogRecord()
    record.add_lookup(lookup, [0, 1], now=3, lr=0.5)
    lookup.apply_keeping_grads(grads, lr=0.5)
    with pytest.raises(RuntimeError, match="has another batch"):
        log.append(record)
    assert log.last_lsn == 0


def test_a_record_that_cannot_be_filled_leaves_no_trace_in_the_log(tmp_path):
    table = make_native_table()
    log = TableLog(tmp_path / "1.log", [table])
    train_and_log(table, log, [1])
    lookup, vectors = train(table, [1, 2], step=False)
    lookup.apply_keeping_grads(vectors, lr=0.5)
    record = LogRecord()
    record.add_lookup(lookup, [0], now=0, lr=0.5, labels=np.ones(3, np.float32))
    with pytest.raises(ValueError, match="one label per sample"):
        log.append(record)
    train_and_log(table, log, [1])
    assert log.commit("process") == 2
    assert replay_log([make_native_table()], [tmp_path / "1.log"])["last_lsn"] == 2


def write_segments(folder, firsts, num_records=2):
    """Write a log of several segments of two records each; return their paths and the table."""
    table = make_native_table()
    paths = [folder / f"{first}.log" for first in firsts]
    for path, first in zip(paths, firsts, strict=True):
        log = TableLog(path, [table], first_lsn=first)
        for _ in range(num_records):
            train_and_log(table, log, [1, first])
        log.commit("process")
    return paths, table


@pytest.mark.parametrize(
    ("lsn", "num_dropped"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2), (99, 2)]
)
def test_segments_that_a_snapshot_covers_are_dropped(tmp_path, lsn, num_dropped):
    paths, _ = write_segments(tmp_path, (1, 3, 5))
    assert drop_segments(paths, lsn) == paths[:num_dropped]
    assert [path.exists() for path in paths] == [i >= num_dropped for i in range(3)]


def test_a_snapshot_and_the_segments_left_behind_it_give_the_table(tmp_path):
    paths, table = write_segments(tmp_path, (1, 3))
    (tmp_path / "base").mkdir()
    lsn = 4
    Cut(table).write(tmp_path / "base", kind="base", lsn=lsn)
    log = TableLog(tmp_path / "5.log", [table], first_lsn=lsn + 1)
    train_and_log(table, log, [1, 7])
    log.commit("process")
    assert drop_segments([*paths, tmp_path / "5.log"], lsn) == paths
    copy = make_native_table()
    read_snapshot(copy, [tmp_path / "base"])
    replay_log([copy], [tmp_path / "5.log"], after_lsn=lsn)
    assert same(copy, table)


def test_segments_out_of_order_or_damaged_are_not_dropped(tmp_path):
    paths, _ = write_segments(tmp_path, (1, 3, 5))
    with pytest.raises(SnapshotError, match="the segment before it begins later"):
        drop_segments([paths[0], paths[2], paths[1]], 99)
    paths[2].write_bytes(b"FRECTLOG")
    with pytest.raises(SnapshotError, match=r"5\.log"):
        drop_segments(paths, 99)
    assert all(path.exists() for path in paths)


def test_the_last_request_of_every_worker_is_known_again(tmp_path):
    table = make_table()
    log = TableLog(tmp_path / "1.log", [table])
    for worker, incarnation, sequence in [(0, 1, 8), (1, 1, 3), (0, 2, 1), (1, 1, 4)]:
        train_and_log(table, log, [1], worker=worker, incarnation=incarnation, sequence=sequence)
    log.commit("process")
    told = replay_log([make_table()], [tmp_path / "1.log"], after_lsn=4)
    assert told["requests"] == {0: (2, 1), 1: (1, 4)}
    assert (told["applied"], told["last_lsn"]) == (0, 4)


def test_what_is_not_committed_is_not_in_the_file(tmp_path):
    table = make_table()
    log = TableLog(tmp_path / "1.log", [table])
    assert train_and_log(table, log, [1]) == 1
    assert replay_log([make_table()], [tmp_path / "1.log"])["last_lsn"] == 0
    assert log.commit("process") == 1
    assert replay_log([make_table()], [tmp_path / "1.log"])["last_lsn"] == 1


def test_a_torn_tail_is_reported_and_cut_on_request(tmp_path):
    path = tmp_path / "1.log"
    live = write_log(path, num_steps=3)
    end = path.stat().st_size
    write_log(tmp_path / "longer.log", num_steps=4)
    path.write_bytes((tmp_path / "longer.log").read_bytes()[:-5])
    for torn_tail in ("keep", "truncate"):
        table = make_table()
        told = replay_log([table], [path], torn_tail=torn_tail)
        assert told["torn"] == (path, end, "the file ends within a record")
        assert told["last_lsn"] == 3
        assert same(table, live)
    assert path.stat().st_size == end
    assert replay_log([make_table()], [path])["torn"] is None


def test_damage_before_a_sound_record_is_refused_and_changes_nothing(tmp_path):
    path = tmp_path / "1.log"
    write_log(path)
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    table = make_table()
    train(table, [7, 7, 7, 7])
    before = len(table)
    with pytest.raises(SnapshotError, match=r"1\.log: at byte \d+: damaged: .* sound record"):
        replay_log([table], [path], torn_tail="truncate")
    assert len(table) == before == 1


def test_segments_must_follow_each_other(tmp_path):
    table = make_table()
    for first in (1, 3, 7):
        log = TableLog(tmp_path / f"{first}.log", [table], first_lsn=first)
        train_and_log(table, log, [1])
        train_and_log(table, log, [1])
        log.commit("process")
    one, three, seven = (tmp_path / f"{first}.log" for first in (1, 3, 7))
    assert replay_log([make_table()], [one, three])["last_lsn"] == 4
    for segments in ([three], [three, one], [one, seven], [one, one]):
        with pytest.raises(SnapshotError, match="begins with record"):
            replay_log([make_table()], segments)
    one.write_bytes(one.read_bytes()[:-1])
    with pytest.raises(SnapshotError, match="another segment follows"):
        replay_log([make_table()], [one, three])


def test_a_log_of_other_tables_is_refused(tmp_path):
    write_log(tmp_path / "1.log")
    for options in ({"name": "u"}, {"dim": 5}):
        with pytest.raises(SnapshotError, match=r"is a log of t of width 2; expected"):
            replay_log([make_native_table(**options)], [tmp_path / "1.log"])
    with pytest.raises(SnapshotError, match="is a log of t of width 2"):
        replay_log([], [tmp_path / "1.log"])
    with pytest.raises(SnapshotError, match="cannot be read"):
        replay_log([make_table()], [tmp_path / "none.log"])


def test_a_log_that_does_not_follow_the_snapshot_is_refused(tmp_path):
    table = make_native_table()
    log = TableLog(tmp_path / "1.log", [table])
    train_and_log(table, log, [1])
    record = LogRecord()
    record.add_push(0, np.array([5]), np.ones((1, 2), np.float32), lr=0.1)
    log.append(record)
    log.commit("process")
    copy = make_native_table()
    with pytest.raises(SnapshotError, match="id 5, which has no row"):
        replay_log([copy], [tmp_path / "1.log"])
    assert len(copy) == 0


def test_ids_out_of_range_are_refused_before_anything_changes(tmp_path):
    wide, narrow = make_native_table(num_rows=100), make_native_table(num_rows=10)
    log = TableLog(tmp_path / "1.log", [wide])
    train_and_log(wide, log, [1])
    train_and_log(wide, log, [50])
    log.commit("process")
    with pytest.raises(SnapshotError, match="id 50 lies out of"):
        replay_log([narrow], [tmp_path / "1.log"])
    assert len(narrow) == 0


def test_wrong_operations_are_refused(tmp_path):
    table = make_native_table()
    log = TableLog(tmp_path / "1.log", [table])
    record = LogRecord()
    record.add_eviction(1, np.array([5]))
    with pytest.raises(ValueError, match="no table 1"):
        log.append(record)
    record = LogRecord()
    record.add_push(0, np.array([5]), np.ones((1, 3), np.float32), lr=0.1)
    with pytest.raises(ValueError, match="of width 3 for table t of width 2"):
        log.append(record)
    with pytest.raises(ValueError, match="one gradient per id"):
        record.add_push(0, np.array([5]), np.ones((2, 2), np.float32), lr=0.1)
    with pytest.raises(ValueError, match="0 or 1"):
        record.add_impressions(0, np.array([5]), np.array([2], np.uint8), now=0)
    with pytest.raises(FileExistsError):
        TableLog(tmp_path / "1.log", [table])
    assert log.last_lsn == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.log"]


def test_a_commit_that_failed_is_made_up_for_by_the_next(tmp_path):
    table = make_native_table()
    log = TableLog(tmp_path / "1.log", [table])
    train_and_log(table, log, [1])
    log.commit("process")
    committed = (tmp_path / "1.log").read_bytes()
    train_and_log(table, log, list(range(1000)))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            log.commit("process")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert (tmp_path / "1.log").read_bytes() == committed
    train_and_log(table, log, [2])
    assert log.commit("disk") == 3
    copy = make_native_table()
    assert replay_log([copy], [tmp_path / "1.log"])["last_lsn"] == 3
    assert same(copy, table)


def log_large_step(table, log, ids):
    """Do a step of so many ids that its record is not kept for a commit, and append it."""
    lookup = BatchLookup([table], [(0, 0, "sum")], [])
    lookup.find(ids, np.arange(len(ids) + 1), len(ids), training=True)
    lookup.apply_keeping_grads(np.ones((len(ids), 2), np.float32), lr=0.1)
    record = LogRecord()
    record.add_lookup(lookup, [0], now=0, lr=0.1)
    return log.append(record)


def test_a_large_record_is_in_the_file_before_its_commit_and_replays(tmp_path):
    table = make_native_table(guards={"clip_norm": 0.5})
    log = TableLog(tmp_path / "1.log", [table])
    before = (tmp_path / "1.log").stat().st_size
    log_large_step(table, log, np.arange(30_000))
    assert (tmp_path / "1.log").stat().st_size > before + 30_000 * 25
    train_and_log(table, log, [1, 2])  # waits for its commit, and so do those behind it
    log_large_step(table, log, np.arange(20_000, 50_000))
    assert log.commit("process") == 3
    copy = make_native_table(guards={"clip_norm": 0.5})
    told = replay_log([copy], [tmp_path / "1.log"])
    assert (told["last_lsn"], told["torn"]) == (3, None)
    assert same(copy, table)


def test_a_large_record_that_the_system_refuses_waits_for_the_next_commit(tmp_path):
    table = make_native_table()
    log = TableLog(tmp_path / "1.log", [table])
    empty = (tmp_path / "1.log").read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        assert log_large_step(table, log, np.arange(30_000)) == 1
        assert (tmp_path / "1.log").read_bytes() == empty
        with pytest.raises(OSError, match="too large"):
            log.commit("process")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert log.commit("process") == 1
    copy = make_native_table()
    assert replay_log([copy], [tmp_path / "1.log"])["torn"] is None
    assert same(copy, table)


def test_threads_share_a_log(tmp_path):
    table = make_native_table()
    log = TableLog(tmp_path / "1.log", [table])

    def work(worker):
        for sequence in range(1, 51):
            record = LogRecord()
            record.add_eviction(0, np.array([sequence]))
            lsn = log.append(record, worker=worker, sequence=sequence)
            assert log.commit("disk" if sequence % 10 == 0 else "process") >= lsn

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    told = replay_log([make_native_table()], [tmp_path / "1.log"])
    assert told["applied"] == 200
    assert told["requests"] == {worker: (0, 50) for worker in range(4)}
