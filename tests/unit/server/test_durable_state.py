"""The folder of a server: one owner, snapshots that replace the journal, full disks."""

import errno
import os
import shutil
import threading

import pytest

from fleetrec.core.errors import CheckpointError, UnavailableError
from fleetrec.server import durable_state
from fleetrec.server.durable_state import DurableState, exit_on_partial_update
from fleetrec.server.journal import read_journal, segment_numbers
from fleetrec.server.wire import Kind, Message, encode

RECORDS = [encode(Message(kind=Kind.HELLO, sequence=i)) for i in range(3)]

DEADLINE_S = 30.0


class Content:
    """A snapshot of one file."""

    def write(self, directory):
        (directory / "x").write_text("content")

    def close(self):
        pass


class Failing(Content):
    def write(self, directory):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Slow(Content):
    """Is written when the test says so, or given up."""

    def __init__(self):
        self.is_writing = threading.Event()
        self.may_end = threading.Event()
        self.is_closed = False

    def write(self, directory):
        super().write(directory)
        self.is_writing.set()
        assert self.may_end.wait(DEADLINE_S)
        if self.is_closed:
            raise RuntimeError("given up")

    def close(self):
        self.is_closed = True
        self.may_end.set()


def open_state(directory):
    durable = DurableState(directory, durability="process")
    return durable, list(durable.records())


def test_two_servers_cannot_share_a_folder(tmp_path):
    durable = DurableState(tmp_path, durability="process")
    with pytest.raises(UnavailableError, match="another server uses this folder"):
        DurableState(tmp_path, durability="process")
    durable.close()
    DurableState(tmp_path, durability="process").close()


def test_records_since_the_newest_snapshot_are_replayed(tmp_path):
    durable, records = open_state(tmp_path)
    assert records == []
    durable.append(RECORDS[0])
    durable.save_snapshot(Content(), {"step": 1})
    durable.append(RECORDS[1])
    durable.close()
    durable, records = open_state(tmp_path)
    assert records == RECORDS[1:2]
    assert durable.read_state() == {"step": 1}
    assert (durable.newest_snapshot() / "x").read_text() == "content"
    durable.close()


def test_a_snapshot_deletes_older_files(tmp_path):
    durable, _ = open_state(tmp_path)
    for step in range(3):
        durable.append(RECORDS[step])
        durable.save_snapshot(Content(), {"step": step})
    assert segment_numbers(tmp_path) == [4]
    assert [path.name for path in tmp_path.glob("snapshot-*")] == ["snapshot-0000000004"]
    durable.close()


def test_a_snapshot_that_fails_loses_nothing(tmp_path):
    durable, _ = open_state(tmp_path)
    durable.append(RECORDS[0])
    with pytest.raises(OSError, match="No space left"):
        durable.save_snapshot(Failing(), {})
    durable.append(RECORDS[1])
    durable.close()
    durable, records = open_state(tmp_path)
    assert records == RECORDS[:2]
    assert durable.newest_snapshot() is None
    durable.close()


def test_records_are_appended_while_a_snapshot_is_written(tmp_path):
    durable, _ = open_state(tmp_path)
    durable.append(RECORDS[0])
    snapshot = Slow()
    durable.start_snapshot(snapshot, {"step": 1})
    assert snapshot.is_writing.wait(DEADLINE_S)
    durable.append(RECORDS[1])
    assert durable.is_saving
    assert durable.newest_snapshot() is None
    snapshot.may_end.set()
    durable.wait_for_snapshot()
    assert not durable.is_saving
    assert segment_numbers(tmp_path) == [2]
    durable.close()
    durable, records = open_state(tmp_path)
    assert (durable.read_state(), records) == ({"step": 1}, RECORDS[1:2])
    durable.close()


def test_all_records_are_there_if_the_server_dies_while_it_writes_a_snapshot(tmp_path):
    durable, _ = open_state(tmp_path / "state")
    durable.append(RECORDS[0])
    snapshot = Slow()
    durable.start_snapshot(snapshot, {"step": 1})
    assert snapshot.is_writing.wait(DEADLINE_S)
    durable.append(RECORDS[1])
    died = tmp_path / "died"
    shutil.copytree(tmp_path / "state", died)  # what a server that starts now would find
    recovered, records = open_state(died)
    assert (recovered.newest_snapshot(), records) == (None, RECORDS[:2])
    assert not list(died.glob(".snapshot-*"))
    recovered.close()
    snapshot.may_end.set()
    durable.close()


def test_a_snapshot_in_the_background_that_fails_loses_nothing(tmp_path, caplog):
    durable, _ = open_state(tmp_path)
    durable.append(RECORDS[0])
    durable.start_snapshot(Failing(), {})
    durable.wait_for_snapshot()
    assert "no snapshot could be written" in caplog.text
    durable.append(RECORDS[1])
    durable.close()
    durable, records = open_state(tmp_path)
    assert (durable.newest_snapshot(), records) == (None, RECORDS[:2])
    durable.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_snapshot_in_the_background_is_given_up_for_another_or_at_the_end(tmp_path, is_replaced):
    durable, _ = open_state(tmp_path)
    durable.append(RECORDS[0])
    snapshot = Slow()
    durable.start_snapshot(snapshot, {"step": 1})
    assert snapshot.is_writing.wait(DEADLINE_S)
    durable.append(RECORDS[1])
    if is_replaced:
        durable.save_snapshot(Content(), {"step": 2})
    durable.close()
    assert snapshot.is_closed
    durable, records = open_state(tmp_path)
    if is_replaced:
        assert (durable.read_state(), records) == ({"step": 2}, [])
    else:
        assert (durable.newest_snapshot(), records) == (None, RECORDS[:2])
    durable.close()


def test_a_changed_file_of_a_snapshot_is_refused_by_name(tmp_path):
    durable, _ = open_state(tmp_path)
    durable.save_snapshot(Content(), {})
    (durable.newest_snapshot() / "x").write_text("changed")
    with pytest.raises(CheckpointError, match="damaged: x"):
        durable.read_state()
    durable.close()


def test_a_server_that_starts_on_a_full_disk_waits_for_space(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(durable_state, "DISK_RETRY_S", 0.0)
    write = os.write
    attempts = iter(range(3))

    def fail_at_first(descriptor, content):
        if next(attempts, None) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", fail_at_first)
    durable, records = open_state(tmp_path)
    assert records == []
    durable.append(RECORDS[0])
    durable.close()
    assert list(read_journal(tmp_path, first=1)) == RECORDS[:1]
    assert caplog.text.count("cannot serve yet") == 3


def test_a_failed_update_ends_the_process(monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with exit_on_partial_update():
        pass
    assert codes == []
    with pytest.raises(ValueError, match="half"), exit_on_partial_update():
        raise ValueError("half of it")
    assert codes == [70]
