"""A TFRecord file as its specification has it, byte by byte."""

from pathlib import Path

from making_rows import FORMATS, open_source, to_example, to_record
from reference.crc32c import crc32c
from reference.samples import contents_of

# Example { features { feature { key: "1" value { int64_list { value: [5, 300] } } } } }
MESSAGE = bytes.fromhex(
    "0a 0e"  # Example.features, 14 bytes
    "0a 0c"  # an entry of the map, 12 bytes
    "0a 01 31"  # key: one byte, '1'
    "12 07"  # value: a Feature of 7 bytes
    "1a 05"  # int64_list, 5 bytes
    "0a 03 05 ac 02"  # packed: 5, then 300 as 0xac 0x02
)
RECORD = bytes.fromhex(
    "10 00 00 00 00 00 00 00"  # 16 bytes
    "95 fb fe 18"  # checksum of the length
    + MESSAGE.hex()
    + "64 82 27 9a"  # checksum of the message
)


def test_the_checksum_is_the_published_one():
    assert crc32c(b"123456789") == 0xE3069283


def test_the_writer_of_the_tests_writes_these_bytes():
    assert to_example({"1": [5, 300]}) == MESSAGE
    assert to_record(MESSAGE) == RECORD


def test_an_empty_record_is_sixteen_known_bytes():
    # The length 0, its checksum, no bytes, and the checksum of no bytes (0, rotated and shifted).
    assert to_record(b"").hex(" ", 4) == "00000000 00000000 29039807 d8ea82a2"


def test_the_message_is_read(tmp_path: Path):
    form = next(form for form in FORMATS if form.name == "tfrecord")
    path = tmp_path / "one.tfrecord"
    path.write_bytes(RECORD)
    source, part = open_source(form.dataset(path, sparse=("1",), dense=()))
    block = source.decode(list(source.read(part, offset=0, row=0)))
    assert contents_of(block) == {"ids": [5, 300], "offsets": [0, 2], "dense": {}, "seen": [1]}
