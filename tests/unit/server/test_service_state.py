"""Snapshots of a service: when they are written, and what is refused."""

import errno
import os
import tempfile

import pytest

from fleetrec.core.errors import CheckpointError
from fleetrec.server.wire import Kind
from unit.server.serving import MODEL, SYNC, RunningService, make_service


def test_a_journal_grows_as_long_as_the_snapshot_that_would_replace_it(tmp_path):
    running = RunningService(tmp_path, snapshot_bytes=1)

    def newest():
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
    assert "no snapshot could be written" in caplog.text
    dense = running.dense()
    assert dense == [-1.0] * MODEL.num_dense
    running.restart()
    assert running.dense() == dense


@pytest.mark.parametrize(
    "name", ["state.json", "counts.json", "dense.safetensors", "sums.json", "tables/t/*"]
)
def test_a_damaged_snapshot_is_refused_by_name(tmp_path, name):
    running = RunningService(tmp_path, snapshot_bytes=1)
    running.push(1)
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
    running.durable.close()
    with pytest.raises(CheckpointError, match="written by server 0 of 1, this is server 1 of 2"):
        make_service(tmp_path, index=1, count=2)
