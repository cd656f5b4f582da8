"""Records come back in order; damage is distinguished from a torn tail."""

import errno
import os

import pytest

from fleetrec.server.journal import JournalError, JournalWriter, read_journal, segment_path
from fleetrec.server.wire import Kind, Message, encode

RECORDS = [encode(Message(kind=Kind.HELLO, sequence=i)) for i in range(5)]


def write(directory, records=RECORDS, *, number=1, durability="process"):
    writer = JournalWriter(directory, number, durability=durability)
    for record in records:
        writer.append(record)
    writer.close()
    return segment_path(directory, number)


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_records_come_back_in_order(tmp_path, durability):
    write(tmp_path, durability=durability)
    write(tmp_path, RECORDS[:2], number=2)
    assert list(read_journal(tmp_path, first=1)) == [*RECORDS, *RECORDS[:2]]


@pytest.mark.parametrize("num_bytes", [1, 7, 8, 9, 30])
def test_a_torn_tail_is_truncated(tmp_path, num_bytes):
    path = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-num_bytes])
    assert list(read_journal(tmp_path, first=1)) == RECORDS[:-1]
    assert list(read_journal(tmp_path, first=1)) == RECORDS[:-1]
    assert len(path.read_bytes()) < len(whole) - num_bytes + 1


@pytest.mark.parametrize("num_zeros", [1, 4, 8, 64, 4096])
def test_a_tail_of_zeros_is_dropped_with_a_warning(tmp_path, num_zeros, caplog):
    path = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(num_zeros))
    assert list(read_journal(tmp_path, first=1)) == RECORDS
    assert path.read_bytes() == whole
    (record,) = caplog.records
    assert f"{path}: the last {num_zeros} bytes are no complete record" in record.getMessage()
    assert "they are zeros" in record.getMessage()


def test_damage_in_front_of_valid_records_is_refused(tmp_path):
    path = write(tmp_path)
    for offset in range(8, path.stat().st_size - len(RECORDS[-1]) - 8):
        content = bytearray(path.read_bytes())
        content[offset] ^= 255
        damaged = tmp_path / "damaged"
        damaged.mkdir(exist_ok=True)
        segment_path(damaged, 1).write_bytes(content)
        with pytest.raises(JournalError, match="damaged at byte"):
            list(read_journal(damaged, first=1))


def test_a_missing_segment_is_an_error(tmp_path):
    for number in (1, 2, 3):
        write(tmp_path, number=number)
    segment_path(tmp_path, 2).unlink()
    with pytest.raises(JournalError, match="file 2 of the journal is missing"):
        list(read_journal(tmp_path, first=1))


def test_a_torn_segment_that_is_not_the_last_is_refused(tmp_path):
    path = write(tmp_path)
    write(tmp_path, number=2)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JournalError, match="another file follows"):
        list(read_journal(tmp_path, first=1))


def test_a_segment_that_cannot_be_created_leaves_no_file(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space left"):
            JournalWriter(tmp_path, 1, durability="process")
    assert not list(tmp_path.iterdir())
    assert write(tmp_path).exists()
