"""Attempts, options and the last message, with clients that keep the contract."""

import logging

import pytest

from fleetrec.core.errors import DataError
from fleetrec.core.stream_url import parse_url
from fleetrec.data.streams import client as client_module
from fleetrec.data.streams.client import Message, NoAnswerError, connect, last_message

URL = parse_url("kafka://a:9092/clicks?retry_s=100")


class ListClient:
    """Messages in a list; fails at the offsets ``failing``, once each, after some messages."""

    def __init__(self, offsets, failing=()):
        self.messages = [Message(offset, offset, b"%d" % offset) for offset in offsets]
        self.failing = list(failing)
        self.num_closed = 0
        self.num_read = 0

    def read(self, partition, begin, end):
        for message in self.messages:
            if not begin <= message.offset < end:
                continue
            if message.offset in self.failing:
                self.failing.remove(message.offset)
                raise NoAnswerError("gone")
            self.num_read += 1
            yield [message]

    def end_offsets(self):
        if self.failing:
            self.failing.pop()
            raise NoAnswerError("gone")
        return {0: 9}

    def close(self):
        self.num_closed += 1


@pytest.fixture
def patient(monkeypatch):
    waits = []
    monkeypatch.setattr(client_module.time, "sleep", waits.append)

    def make(inner, url=URL):
        made = client_module._PatientClient(url, lambda: inner)
        made.waits = waits
        return made

    return make


def test_an_interrupted_range_is_delivered_once_and_in_order(patient, caplog):
    inner = ListClient(range(10), failing=[3, 3, 7])
    with caplog.at_level(logging.WARNING):
        found = [m.offset for some in patient(inner).read(0, 2, 9) for m in some]
    assert found == [2, 3, 4, 5, 6, 7, 8]
    assert inner.num_read == 7
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == (
        "kafka://a:9092/clicks: cannot read offset 3 of partition 0: gone; attempt 2 follows"
    )
    assert len(lines) == 3


def test_each_attempt_uses_a_new_connection_and_waits_longer(patient):
    inner = ListClient(range(3), failing=[1] * 8)
    client = patient(inner)
    list(client.read(0, 0, 3))
    assert inner.num_closed == 8
    assert client.waits == [0.5, 1, 2, 4, 8, 10, 10, 10]


def test_calls_are_repeated_too(patient):
    client = patient(ListClient(range(3), failing=[1, 1]))
    assert client.end_offsets() == {0: 9}
    assert client.waits == [0.5, 1]


def test_after_the_stated_time_it_is_an_error(patient):
    url = parse_url("kafka://a:9092/clicks?retry_s=0")
    with pytest.raises(DataError, match=r"offset 1 of partition 0: gone; 1 attempts in 0 s"):
        list(patient(ListClient(range(3), failing=[1]), url).read(0, 0, 3))


def test_the_last_message_is_found_before_offsets_without_one():
    client = ListClient([*range(10), 40])
    assert last_message(client, 0, 0, 10).offset == 9
    assert last_message(client, 0, 0, 40).offset == 9  # 10 to 39 are no messages
    assert last_message(client, 0, 11, 40) is None
    assert last_message(client, 0, 5, 5) is None


def test_a_config_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"config_file .*: cannot be read: No such file"):
        connect(parse_url(f"kafka://a/t?config_file={tmp_path}/none"))
    (tmp_path / "conf").write_text("# comment\nsasl.password hunter2\n")
    with pytest.raises(DataError, match=r"conf:2: expected key=value") as caught:
        connect(parse_url(f"kafka://a/t?config_file={tmp_path}/conf"))
    assert "hunter2" not in str(caught.value)
