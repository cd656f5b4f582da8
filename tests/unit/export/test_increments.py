"""The binary messages of deltas."""

import struct

import numpy as np
import pytest

from fleetrec.core.errors import CheckpointError
from fleetrec.data.streams.client import opened
from fleetrec.export import increments
from fleetrec.export.increments import IncrementSender, dense_messages, sparse_messages
from streaming import KafkaCluster


def test_dense_variables_follow_their_numbers_and_sizes():
    (message,) = dense_messages(7, [np.array([[1.0, 2.0]]), np.float32(3)])
    assert message == struct.pack("<7i3f", 0, 2, 7, 0, 2, 1, 1, 1.0, 2.0, 3.0)


def test_rows_follow_their_ids():
    ids, rows = np.array([5, 2**64 - 1], np.uint64), np.array([[1, 2], [3, 4]], np.float32)
    (message,) = sparse_messages(7, [(3, ids, rows)])
    assert message == struct.pack("<5i2q4f", 1, 1, 7, 3, 2, 5, -1, 1, 2, 3, 4)


def test_large_updates_are_several_messages():
    ids, rows = np.arange(5, dtype=np.uint64), np.zeros((5, 2), np.float32)
    counts = [
        struct.unpack_from("<5i", message)[4]
        for message in sparse_messages(1, [(0, ids, rows)], max_bytes=40)
    ]
    assert counts == [2, 2, 1]
    variables = [np.zeros(4), np.zeros(4), np.zeros(20)]
    numbers = [
        struct.unpack_from("<4i", message)[1::2]
        for message in dense_messages(1, variables, max_bytes=40)
    ]
    assert numbers == [(2, 0), (1, 2)]  # how many, and the first one


def test_a_topic_that_takes_no_message_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
    monkeypatch.setattr(increments, "SEND_S", 1)
    sender = IncrementSender("kafka://127.0.0.1:1/increments", folder=str(tmp_path))
    with pytest.raises(CheckpointError, match=r"/increments: cannot send x, a message of 3 bytes"):
        sender._send("x", [b"abc"])


def test_messages_arrive_in_order(tmp_path):
    cluster = KafkaCluster()
    sender = IncrementSender(cluster.url("increments"), folder=str(tmp_path))
    assert sender._send("x", [b"a", b"b\nc"]) == 2
    with opened(cluster.url("increments")) as client:
        ends = client.end_offsets()
        (partition,) = (p for p, end in ends.items() if end)
        (messages,) = client.read(partition, 0, 2)
    assert [message.value for message in messages] == [b"a", b"b\nc"]
