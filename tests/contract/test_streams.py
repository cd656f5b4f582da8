"""What every client of message streams does, on a broker of its own."""

import dataclasses
import logging
import re
import time

import pytest

from fleetrec.core.errors import DataError
from fleetrec.core.stream_start import parse_start
from fleetrec.core.stream_url import parse_url
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.loader import Loader
from fleetrec.data.streams.client import last_message, open_stream, opened
from fleetrec.data.streams.ranges import freeze, offsets_of
from making_data import make_options
from streaming import KafkaCluster, NatsServer

VALUES = [f"click:{i % 2} 1:{i + 1}".encode() for i in range(10)]


@pytest.fixture(
    params=["kafka", pytest.param("nats", marks=pytest.mark.multiprocess)], scope="module"
)
def broker(request, tmp_path_factory):
    made = KafkaCluster() if request.param == "kafka" else NatsServer(tmp_path_factory.mktemp("n"))
    yield made
    made.close()


@pytest.fixture
def topic(broker, request):
    """Ten messages in partition 0 of a topic of this test's own."""
    name = re.sub(r"\W", "-", request.node.name)
    broker.send(*VALUES, topic=name)
    return name


def values(client, begin, end):
    return [m.value for messages in client.read(0, begin, end) for m in messages]


def read_file(url: str) -> bytes:
    with DataFile(path=url, name="x", num_bytes=1).open() as stream:
        return stream.read()


def test_offsets_are_those_of_the_oldest_and_the_next_message(broker, topic):
    first = broker.first_offset
    with opened(broker.url(topic)) as client:
        assert client.partitions()[0] == 0
        assert client.begin_offsets()[0] == first
        assert client.end_offsets()[0] == first + 10


def test_a_range_is_exactly_its_messages_in_order(broker, topic):
    first = broker.first_offset
    with opened(broker.url(topic)) as client:
        assert values(client, first, first + 10) == VALUES
        assert values(client, first + 3, first + 5) == VALUES[3:5]
        assert values(client, first + 9, first + 10) == VALUES[9:]
        assert values(client, first + 4, first + 4) == []
        (messages,) = client.read(0, first + 2, first + 4)
        assert [message.offset for message in messages] == [first + 2, first + 3]
        assert abs(messages[0].time_ms / 1000 - time.time()) < 600


def test_a_range_is_a_text_file_with_a_message_per_line(broker, topic):
    first = broker.first_offset
    url = broker.url(topic, f"?partition=0&begin={first + 1}&end={first + 4}")
    text = b"".join(value + b"\n" for value in VALUES[1:4])
    assert read_file(url) == text
    (file,) = list_files(url)
    assert file.name == f"{topic}/0/{first + 1}-{first + 4}"
    with file.open() as stream:
        assert stream.read(5) == text[:5]
        assert stream.tell() == 5
        assert stream.seek(20) == 20
        assert stream.read() == text[20:]
        assert stream.read(10) == b""
        assert stream.seek(3) == 3  # backwards
        assert stream.read(4) == text[3:7]


def test_newlines_at_the_end_are_not_doubled_and_empty_messages_are_empty_lines(broker, topic):
    first = broker.first_offset + 10
    broker.send(b"a\n", b"", b"b", None, topic=topic)
    url = broker.url(topic, f"?partition=0&begin={first}&end={first + 4}")
    assert read_file(url) == b"a\n\nb\n\n"


def test_a_message_of_two_lines_is_an_error_that_names_its_offset(broker, topic):
    first = broker.first_offset
    broker.send(b"a\nb\n", topic=topic)
    url = broker.url(topic, f"?partition=0&begin={first}&end={first + 11}")
    with pytest.raises(DataError, match=rf"partition 0, offset {first + 10}: expected one line"):
        read_file(url)


def test_a_loader_reads_a_range_and_resumes_in_the_middle(broker, topic):
    first = broker.first_offset
    url = broker.url(topic, f"?partition=0&begin={first}&end={first + 10}")
    options = make_options(url).model_copy(
        update={"sparse": ("click", "1"), "dense": (), "batch_size": 3, "format": "slot_text"}
    )
    with Loader(options, seed=0).epoch(0) as batches:
        all_batches = list(batches)
    ids = [batch.ids["1"].values.tolist() for batch in all_batches]
    assert ids == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]
    with Loader(options, seed=0).epoch(0, start=all_batches[1].cursor) as batches:
        assert [batch.ids["1"].values.tolist() for batch in batches] == ids[2:]


def test_a_stream_without_a_range_is_read_from_its_start_up_to_now(broker, topic):
    first = broker.first_offset
    (file,) = list_files(broker.url(topic))
    assert file.path == broker.url(topic, f"?partition=0&begin={first}&end={first + 10}")
    assert file.num_bytes == 10 * (len(VALUES[-1]) + 1)
    (file,) = list_files(broker.url(topic, f"?start=0:{first + 7}"))
    assert file.name == f"{topic}/0/{first + 7}-{first + 10}"
    with pytest.raises(DataError, match="no message from latest on"):
        list_files(broker.url(topic, "?start=latest"))


def test_positions_are_resolved(broker, topic):
    first = broker.first_offset
    with opened(broker.url(topic)) as client:

        def offset_at(text):
            return offsets_of(client, parse_start(text, where="start"))[0]

        assert offset_at("earliest") == first
        assert offset_at("latest") == first + 10
        assert offset_at('{"0": 6}') == 6
        assert offset_at(str(int(time.time()) + 3600)) == first + 10  # no message is so new
        with pytest.raises(DataError, match="start: no partition 99"):
            offset_at("99:0")


def test_ranges_are_cut_so_that_each_worker_has_some(broker, topic):
    url = parse_url(broker.url(topic))
    with opened(url) as client:
        begins, ends = client.begin_offsets(), client.end_offsets()
        frozen = freeze(client, url, begins, ends, min_ranges=4)
        last = last_message(client, 0, begins[0], ends[0])
    assert frozen.time_ms == last.time_ms
    assert frozen.ends == ends
    text = b"".join(read_file(str(one.url)) for one in frozen.ranges)
    assert text == b"".join(value + b"\n" for value in VALUES)
    assert len(frozen.ranges) >= 4


def test_a_missing_topic_is_an_error_in_one_line(broker):
    with (
        pytest.raises(DataError, match=f"^{broker.scheme}://.*/nowhere: ") as caught,
        opened(broker.url("nowhere")) as client,
    ):
        client.end_offsets()
    assert "\n" not in str(caught.value)


def test_a_missing_partition_is_an_error(broker, topic):
    with opened(broker.url(topic)) as client, pytest.raises(DataError, match="no partition 77"):
        list(client.read(77, 1, 2))


def test_messages_that_a_stream_never_had_are_awaited_and_then_an_error(broker, topic, caplog):
    first = broker.first_offset
    url = dataclasses.replace(parse_url(broker.url(topic)), retry_s=0.1)
    with (
        caplog.at_level(logging.WARNING),
        opened(url) as client,
        pytest.raises(DataError, match=rf"ends at (offset )?{first + 10}, before {first + 12}"),
    ):
        list(client.read(0, first, first + 12))
    assert "attempt 2 follows" in caplog.text


def test_a_broker_that_is_not_there_is_an_error_after_the_stated_time(broker, caplog):
    url = f"{broker.scheme}://127.0.0.1:1/clicks?retry_s=0.2"
    with caplog.at_level(logging.WARNING), pytest.raises(DataError) as caught:
        open_stream(url).end_offsets()
    assert "127.0.0.1:1/clicks: cannot read offsets" in str(caught.value)
    assert "\n" not in str(caught.value)
