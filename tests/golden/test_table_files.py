"""The exact bytes of a tiny snapshot and a tiny log, as docs/formats writes them down."""

import numpy as np

from fleetrec._native import Cut, LogRecord, Table, TableLog, read_snapshot, replay_log
from making_tables import same, train


def make_tiny_table():
    return Table(
        name="ads",
        dim=2,
        num_rows=8,
        salt=0,
        initial=("constant", 0.5, 0.0),
        optimizer="adagrad",
        hyperparameters={"initial_accumulator": 0.25},
        guards={},
        admission=("count", 2.0, 0.0, 0.0),
    )


def crc32c(content):
    """Compute the checksum bit by bit."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def test_the_checksum_is_the_one_of_rfc_3720():
    assert crc32c(bytes(32)) == bytes.fromhex("aa36918a")
    assert crc32c(b"123456789") == bytes.fromhex("839206e3")


# Ids 1 and 5 have rows, id 3 was seen once at time 9.
BASE_HEADER = bytes.fromhex(
    "46524543534e4150"  # FRECSNAP
    "01000000 66000000"  # format 1, header of 102 bytes
    "00000000 00000000 01000000 00000000 00040000"  # base, shard 0 of 1, buckets 0 to 1024
    "02000000 02000000"  # 2 weights, 2 floats of state
    "01000000 00000000 03000000 0000000000000000"  # cut 1, no parent, name of 3 bytes
    "0800000000000000 2a00000000000000"  # ids below 8, log record 42
    "07000000 00000000"  # optimizer's name of 7 bytes
    "616473 61646167726164"  # ads, adagrad
)
ROWS_HEAD = bytes.fromhex("02000000 02000000 48000000")  # 2 rows in 72 bytes
ROWS = bytes.fromhex(
    "0100000000000000 0500000000000000"  # ids
    "09000000 09000000"  # last seen
    "00000040 00004040"  # shows 2 and 3
    "0000803f 00000000"  # clicks 1 and 0
    "0000003f 0000003f 0000003f 0000003f"  # weights 0.5
    "0000803e 0000803e 0000803e 0000803e"  # state 0.25
)
CANDIDATES_HEAD = bytes.fromhex("03000000 01000000 10000000")  # 1 candidate in 16 bytes
CANDIDATES = bytes.fromhex("0300000000000000 09000000 0100 0000")
BASE_COUNTS = bytes.fromhex("0000000000000000 0200000000000000 0100000000000000")

# Id 5 was evicted since.
TOMBSTONES_HEAD = bytes.fromhex("01000000 01000000 08000000")
TOMBSTONES = bytes.fromhex("0500000000000000")
DELTA_COUNTS = bytes.fromhex("0100000000000000 0000000000000000 0100000000000000")


def joined(header, blocks, counts):
    """Add the checksums."""
    crcs = [crc32c(header), *(crc32c(head + content) for head, content in blocks)]
    body = b"".join(
        head + crc + content for (head, content), crc in zip(blocks, crcs[1:], strict=True)
    )
    footer = bytes.fromhex("04000000") + crc32c(b"".join(crcs) + counts) + counts + b"FRECSEND"
    return header + crcs[0] + body + footer


def mix(x):
    mask = 2**64 - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & mask
    return x ^ x >> 31


def make_base():
    table = make_tiny_table()
    labels = np.array([1, 0, 0, 0, 0, 0], np.float32)
    train(table, [1, 5, 3, 5, 1, 5], now=9, labels=labels, step=False)
    return table


BASE = joined(BASE_HEADER, [(ROWS_HEAD, ROWS), (CANDIDATES_HEAD, CANDIDATES)], BASE_COUNTS)


def test_bytes_of_a_base(tmp_path):
    table = make_base()
    Cut(table).write(tmp_path, kind="base", lsn=42)
    written = (tmp_path / "00000-of-00001.snap").read_bytes()
    assert written.hex(" ", 4) == BASE.hex(" ", 4)
    assert [BASE[at : at + 4].hex() for at in (102 - 4, 102 + 12, -36)] == [
        "66ac0514",
        "e5c3d8c3",
        "0ec780d5",
    ]


def test_bytes_of_a_delta(tmp_path):
    table = make_base()
    (tmp_path / "base").mkdir()
    (tmp_path / "delta").mkdir()
    cut = Cut(table)
    cut.write(tmp_path / "base", kind="base", lsn=42)
    cut.commit()
    table.evict(np.array([5]))
    stats = Cut(table).write(tmp_path / "delta", kind="delta", lsn=43)
    parent = mix(int.from_bytes(BASE[-36:-32], "little"))
    header = bytearray(BASE_HEADER)
    header[16] = 1  # a delta
    header[44], header[48] = 2, 1  # cut 2, parent 1
    header[56:64] = parent.to_bytes(8, "little")
    header[72] = 43
    blocks = [(TOMBSTONES_HEAD, TOMBSTONES), (CANDIDATES_HEAD, CANDIDATES)]
    expected = joined(bytes(header), blocks, DELTA_COUNTS)
    written = (tmp_path / "delta" / "00000-of-00001.snap").read_bytes()
    assert written.hex(" ", 4) == expected.hex(" ", 4)
    assert stats["fingerprint"] == mix(int.from_bytes(expected[-36:-32], "little"))


def test_a_file_made_by_hand_is_read(tmp_path):
    (tmp_path / "00000-of-00001.snap").write_bytes(BASE)
    table = make_tiny_table()
    stats = read_snapshot(table, [tmp_path])
    assert (stats["rows"], stats["candidates"], stats["lsn"]) == (2, 1, 42)
    assert same(table, make_base())


LOG_HEADER = bytes.fromhex(
    "46524543544c4f47"  # FRECTLOG
    "01000000 2f000000"  # format 1, header of 47 bytes
    "2b00000000000000"  # first record is 43
    "01000000 00000000"  # one table
    "02000000 03000000 616473"  # of width 2: ads
)
FIRST = bytes.fromhex(
    "2b00000000000000"  # record 43
    "07000000 01000000 0900000000000000"  # worker 7, incarnation 1, sequence 9
    "01000000 02000000"  # of one table, two operations
    "01000000 00000000 02000000 0a000000"  # impressions, table 0, 2 ids, time 10
    "0100000000000000 0300000000000000"  # ids
    "01 00"  # a click on 1
    "02000000 00000000 01000000 0000003f"  # push, table 0, 1 id, learning rate 0.5
    "0100000000000000"  # id
    "0000803f 000000c0"  # gradient 1, -2
)
SECOND = bytes.fromhex(
    "2c00000000000000"  # record 44
    "00000000 00000000 0000000000000000"
    "01000000 01000000"
    "03000000 00000000 01000000 00000000"  # eviction, table 0, 1 id
    "0500000000000000"
)


def framed(body):
    num_bytes = len(body).to_bytes(4, "little")
    return num_bytes + crc32c(num_bytes + body) + body


LOG = LOG_HEADER + crc32c(LOG_HEADER) + framed(FIRST) + framed(SECOND)


def test_bytes_of_a_log(tmp_path):
    path = tmp_path / "1.log"
    log = TableLog(path, [make_tiny_table()], first_lsn=43)
    record = LogRecord()
    record.add_impressions(0, np.array([1, 3]), np.array([1, 0], np.uint8), now=10)
    record.add_push(0, np.array([1]), np.array([[1, -2]], np.float32), lr=0.5)
    assert log.append(record, worker=7, incarnation=1, sequence=9) == 43
    record = LogRecord()
    record.add_eviction(0, np.array([5]))
    assert log.append(record) == 44
    log.commit("disk")
    assert path.read_bytes().hex(" ", 4) == LOG.hex(" ", 4)
    assert (LOG[43:47].hex(), LOG[51:55].hex()) == ("13814f63", "57cd01d8")


def test_a_log_made_by_hand_is_replayed(tmp_path):
    path = tmp_path / "1.log"
    path.write_bytes(LOG)
    table = make_base()
    told = replay_log([table], [path], after_lsn=42)
    assert told["requests"] == {0: (0, 0), 7: (1, 9)}
    taken = table.snapshot()
    assert taken["ids"].tolist() == [1, 3]  # the second impression of 3 gave it a row
    assert taken["shows"].tolist() == [3, 2]
    assert taken["clicks"].tolist() == [2, 0]
    assert taken["last_seen"].tolist() == [10, 10]
    assert taken["state"].tolist() == [[1.25, 4.25], [0.25, 0.25]]  # 0.25 and squared gradients
    assert taken["rows"].tolist()[1] == [0.5, 0.5]
