"""The exact bytes of messages and journals: other releases read them."""

import numpy as np

from fleetrec.server.journal import JournalWriter, segment_path
from fleetrec.server.wire import Kind, Message, encode

PULL = Message(
    kind=Kind.PULL,
    worker=2,
    incarnation=3,
    sequence=258,
    arrays=[np.array([1, 2], np.uint8), np.array([[1.0], [-2.0]], np.float32)],
)
PULL_BYTES = (
    b"FRPS\x01\x00\x03\x00\x02\x00\x00\x00\x03\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00"
    b"\x02\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x01\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
    b"\x01\x02\x00\x00\x00\x00\x00\x00"
    b"\x04\x02\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x80\x3f\x00\x00\x00\xc0"
)


def test_the_bytes_of_a_message():
    assert encode(PULL) == PULL_BYTES


def test_the_bytes_of_a_journal(tmp_path):
    writer = JournalWriter(tmp_path, 7, durability="process")
    writer.append(b"abc")
    writer.close()
    assert segment_path(tmp_path, 7).name == "0000000007.journal"
    expected = b"FRJOURN1\x03\x00\x00\x00\xc2\x41\x24\x35abc"  # 352441c2 is the CRC-32 of abc
    assert segment_path(tmp_path, 7).read_bytes() == expected
