"""Snapshots of a service: when they are written, and what is refused."""

import errno
import os
import shutil
import tempfile
import threading

import pytest

from fleetrec.core.errors import CheckpointError
from fleetrec.server import durable_state
from fleetrec.server.wire import Kind, json_array
from unit.server.serving import MODEL, SYNC, RunningService, make_service


def test_a_journal_grows_as_long_as_the_snapshot_that_would_replace_it(tmp_path):
    running = RunningService(tmp_path, snapshot_bytes=1)

    def newest():
        running.durable.wait_for_snapshot()
        (path,) = tmp_path.glob("snapshot-*")
        return path

    running.push(1)
    first = newest()
    size = sum(path.stat().st_size for path in first.rglob("*") if path.is_file())
    sequence = 1
    while newest() == first:
        assert running.durable.num_bytes <= size
        running.restart()  # opens a new segment, but keeps the size of the snapshot
        for _ in range(100):
            sequence += 1
            running.push(sequence)
    assert running.dense() == [-float(sequence)] * MODEL.num_dense


@pytest.mark.parametrize("model", [MODEL, SYNC])
def test_a_snapshot_that_cannot_be_written_delays_nothing(tmp_path, monkeypatch, caplog, model):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    running = RunningService(tmp_path, model=model, snapshot_bytes=1)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", fail)
        running.push(1)
        assert running.pull(2).kind == Kind.OK
        running.durable.wait_for_snapshot()
    assert "no snapshot could be written" in caplog.text
    dense = running.dense()
    assert dense == [-1.0] * MODEL.num_dense
    running.restart()
    assert running.dense() == dense


@pytest.mark.parametrize("model", [MODEL, SYNC])
def test_steps_go_on_while_a_snapshot_is_written(tmp_path, monkeypatch, model):
    state = tmp_path / "state"
    is_writing, may_end = threading.Event(), threading.Event()
    publish = durable_state.publish

    def publish_later(directory, write):
        is_writing.set()
        assert may_end.wait(30)
        publish(directory, write)

    monkeypatch.setattr(durable_state, "publish", publish_later)
    running = RunningService(state, model=model, snapshot_bytes=1)
    rows = []
    for sequence in range(1, 6):
        running.push(sequence)
        assert running.pull(sequence + 1).kind == Kind.OK
        rows.append(running.rows())
    assert is_writing.is_set()
    assert not list(state.glob("snapshot-*"))
    died = tmp_path / "died"
    shutil.copytree(state, died)  # what a server that starts now would find
    may_end.set()
    running.durable.wait_for_snapshot()
    assert len(list(state.glob("snapshot-*"))) == 1
    assert rows[0] != rows[-1]
    for folder in (state, died):
        running.durable.close()
        running.service, running.durable = make_service(folder)
        assert running.rows() == rows[-1]
        assert running.dense() == [-5.0] * MODEL.num_dense
        running.push(6)  # the first one that is new


def test_a_checkpoint_may_be_cut_while_a_snapshot_is_written(tmp_path, monkeypatch):
    may_end = threading.Event()
    publish = durable_state.publish

    def publish_later(directory, write):
        assert may_end.wait(30)
        publish(directory, write)

    monkeypatch.setattr(durable_state, "publish", publish_later)
    running = RunningService(tmp_path, snapshot_bytes=1)
    running.push(1)
    body = json_array({"token": "a"})
    assert running.call(Kind.CUT, incarnation=1, arrays=[body]).kind == Kind.OK
    running.push(2)
    may_end.set()
    running.durable.wait_for_snapshot()
    target = tmp_path / "target"
    tables = {name: {"shards_each": 1} for name in ("t", "u")}
    body = json_array({"token": "a", "target": str(target), "tables": tables})
    saved = running.call(Kind.SAVE, arrays=[body]).json()["tables"]
    assert saved["t"]["rows"] == 1
    assert len(list(tmp_path.glob("snapshot-*"))) == 1
    rows = running.rows()
    running.restart()
    assert running.rows() == rows


@pytest.mark.parametrize(
    "name", ["state.json", "counts.json", "dense.safetensors", "sums.json", "tables/t/*"]
)
def test_a_damaged_snapshot_is_refused_by_name(tmp_path, name):
    running = RunningService(tmp_path, snapshot_bytes=1)
    running.push(1)
    running.durable.wait_for_snapshot()
    (path,) = tmp_path.glob(f"snapshot-*/{name}")
    whole = path.read_bytes()
    for offset in range(0, len(whole), max(1, len(whole) // 20)):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0x55]) + whole[offset + 1 :])
        with pytest.raises(CheckpointError, match=path.parent.name):
            running.restart()
    path.write_bytes(whole)
    running.restart()
    assert running.dense() == [-1.0] * MODEL.num_dense


def test_the_snapshot_of_another_server_is_refused(tmp_path):
    running = RunningService(tmp_path, snapshot_bytes=1)
    running.push(1)
    running.durable.wait_for_snapshot()
    running.durable.close()
    with pytest.raises(CheckpointError, match="written by server 0 of 1, this is server 1 of 2"):
        make_service(tmp_path, index=1, count=2)
