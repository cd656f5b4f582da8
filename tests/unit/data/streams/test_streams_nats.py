"""What only NATS has; the rest is in tests/contract/test_streams.py."""

import sys

import pytest

from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.core.stream_start import parse_start
from fleetrec.core.stream_url import parse_url
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.streams.client import connect, opened
from fleetrec.data.streams.ranges import offsets_of
from streaming import NatsServer

pytestmark = pytest.mark.multiprocess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = NatsServer(tmp_path_factory.mktemp("nats"))
    yield made
    made.close()


def read(server, query, topic):
    with DataFile(path=server.url(topic, query), name="x", num_bytes=1).open() as stream:
        return stream.read()


def test_a_subject_selects_messages_of_a_range(server):
    for number in range(6):
        server.send(b"%d" % number, topic="shop", subject=f"shop.{'ab'[number % 2]}")
    server.send(b"end", topic="shop", subject="shop.c")
    with opened(server.url("shop", "?subject=shop.b")) as client:
        assert client.end_offsets() == {0: 7}
    assert read(server, "?begin=1&end=7&subject=shop.b", "shop") == b"1\n3\n5\n"
    assert read(server, "?begin=1&end=8&subject=shop.b", "shop") == b"1\n3\n5\n"
    assert read(server, "?begin=5&end=6&subject=shop.b", "shop") == b""
    assert read(server, "?begin=1&end=8&subject=shop.none", "shop") == b""


def test_messages_of_many_requests_are_whole(server):
    values = [b"%d" % i for i in range(1700)]
    server.send(*values, topic="many")
    assert read(server, "?begin=1&end=1701", "many") == b"\n".join(values) + b"\n"
    assert read(server, "?begin=401&end=1602", "many") == b"\n".join(values[400:1601]) + b"\n"


def test_deleted_messages_are_an_error_that_names_them(server):
    server.send(*[b"x"] * 10, topic="lost")
    server.call(lambda stream: stream.delete_msg("lost", 5))
    server.call(lambda stream: stream.delete_msg("lost", 6))
    with pytest.raises(DataError, match="messages 5 to 6 are lost"):
        read(server, "?begin=3&end=9", "lost")
    with pytest.raises(DataError, match="messages 5 to 5 are lost"):
        read(server, "?begin=3&end=6", "lost")
    assert read(server, "?begin=7&end=9", "lost") == b"x\nx\n"
    server.call(lambda stream: stream.purge_stream("lost", seq=8))
    with pytest.raises(DataError, match="partition 0: the messages 3 to 7 of 3 to 8 are lost"):
        read(server, "?begin=3&end=9", "lost")


def test_a_time_is_the_first_message_from_then_on(server):
    server.send(b"a", b"b", b"c", topic="times")
    with opened(server.url("times")) as client:
        (messages,) = client.read(0, 1, 4)
        for message in messages:
            at = offsets_of(client, parse_start("1", where="x"))[0]
            assert at == 1
            found = client.offsets_at((message.time_ms - 1) / 1000)[0]
            assert 1 <= found <= message.offset
        assert client.offsets_at(messages[-1].time_ms / 1000 + 1) == {0: 4}


def test_no_consumer_is_left_behind(server):
    server.send(*[b"x"] * 10, topic="clean")
    assert read(server, "?begin=1&end=11", "clean")
    with opened(server.url("clean")) as client:
        client.offsets_at(1)
    assert server.call(lambda stream: stream.consumers_info("clean")) == []


def test_a_password_comes_from_a_file_and_is_not_shown(tmp_path):
    login = {"user": "anna", "password": "hunter2"}
    options = ("--user", "anna", "--pass", "hunter2")
    server = NatsServer(tmp_path, options=options, login=login)
    server.send(b"a", topic="safe")
    right, wrong = tmp_path / "right.conf", tmp_path / "wrong.conf"
    right.write_text("user=anna\npassword=hunter2\n")
    wrong.write_text("user=anna\npassword=hunter3\n")
    try:
        (file,) = list_files(server.url("safe", f"?config_file={right}"))
        assert "hunter2" not in file.path
        with file.open() as stream:
            assert stream.read() == b"a\n"
        for query in (f"?retry_s=2&config_file={wrong}", "?retry_s=2"):
            with pytest.raises(DataError, match="Authorization") as caught:
                list_files(server.url("safe", query))
            assert "hunter" not in str(caught.value)
    finally:
        server.close()


def test_unknown_options_are_refused(server):
    with pytest.raises(DataError, match=r"'fetch.max' is unknown; options of NATS: user, password"):
        connect(parse_url(server.url("clicks", "?fetch.max=1")))


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(UnavailableError, match=r"pip install 'fleetrec\[nats\]'"):
        list_files("nats://127.0.0.1:1/clicks")
