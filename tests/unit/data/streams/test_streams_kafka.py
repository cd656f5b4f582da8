"""What only Kafka has; the rest is in tests/contract/test_streams.py."""

import sys

import pytest

from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.core.stream_url import parse_url
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.loader import Loader
from fleetrec.data.streams.client import connect, opened
from making_data import make_options
from streaming import KafkaCluster


@pytest.fixture(scope="module")
def cluster():
    return KafkaCluster()


def read(cluster, query, topic="clicks", options=()):
    file = DataFile(path=cluster.url(topic, query), name="x", num_bytes=1, options=options)
    with file.open() as stream:
        return stream.read()


def test_partitions_are_read_apart(cluster):
    cluster.send(b"a", b"b", topic="two", partition=0)
    cluster.send(b"c", topic="two", partition=3)
    with opened(cluster.url("two")) as client:
        assert client.partitions() == (0, 1, 2, 3)
        assert client.end_offsets() == {0: 2, 1: 0, 2: 0, 3: 1}
    assert read(cluster, "?partition=3&begin=0&end=1", "two") == b"c\n"
    assert [file.name for file in list_files(cluster.url("two"))] == ["two/0/0-2", "two/3/0-1"]


def test_a_range_of_many_reads_is_whole(cluster):
    values = [b"%d" % i for i in range(25_000)]
    cluster.send(*values, topic="many")
    text = read(cluster, "?partition=0&begin=1&end=24999", "many")
    assert text == b"\n".join(values[1:-1]) + b"\n"


def test_deleted_messages_are_an_error_that_names_them(cluster):
    cluster.send(*[b"x" * 100_000] * 80, topic="large")  # more than this cluster keeps
    with opened(cluster.url("large")) as client:
        first = client.begin_offsets()[0]
    assert first > 0
    with pytest.raises(DataError, match=rf"partition 0: the messages 0 to {first - 1} of 0 to 79"):
        read(cluster, "?partition=0&begin=0&end=80", "large")
    assert read(cluster, f"?partition=0&begin={first}&end=80", "large")


def test_time_stamps_are_those_of_the_messages(cluster):
    cluster.send(b"a", b"b", topic="times", times_ms=lambda i: 1_700_000_000_000 + i)
    with opened(cluster.url("times")) as client:
        (messages,) = client.read(0, 0, 2)
    assert [message.time_ms for message in messages] == [1_700_000_000_000, 1_700_000_000_001]


def test_nothing_is_committed(cluster):
    kafka = pytest.importorskip("confluent_kafka")
    cluster.send(b"a", topic="free")
    read(cluster, "?partition=0&begin=0&end=1&group.id=readers", "free")
    consumer = kafka.Consumer({"bootstrap.servers": cluster.hosts, "group.id": "readers"})
    (place,) = consumer.committed([kafka.TopicPartition("free", 0)], timeout=10)
    consumer.close()
    assert place.offset == kafka.OFFSET_INVALID


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enable.auto.commit": "true"}, "enable.auto.commit: offsets are stored in checkpoints"),
        ({"auto.offset.reset": "latest"}, "always 'error', got 'latest'"),
        ({"bootstrap.servers": "b:1"}, "bootstrap.servers are the hosts of the URL"),
        ({"no.such": "1"}, 'No such configuration property: "no.such"'),
    ],
)
def test_options_that_cannot_be_are_refused(cluster, options, message):
    with pytest.raises(DataError, match=message):
        connect(parse_url(cluster.url()), tuple(options.items()))


def test_options_come_from_url_file_and_caller(cluster, tmp_path):
    (tmp_path / "client.conf").write_text("# of the client\n\nsasl.password = hunter2\n")
    url = parse_url(cluster.url("clicks", f"?config_file={tmp_path}/client.conf&client.rack=r1"))
    client = connect(url, (("group.id", "readers"),))
    assert client._options == {
        "client.rack": "r1",
        "sasl.password": "hunter2",
        "group.id": "readers",
    }
    client.close()


def test_secrets_of_a_file_are_neither_shown_nor_in_its_path(cluster):
    file = DataFile(
        path=cluster.url("clicks", "?partition=0&begin=0&end=1"),
        name="clicks/0/0-1",
        num_bytes=1,
        options=(("sasl.password", "hunter2"), ("security.protocol", "nonsense")),
    )
    assert "hunter2" not in repr(file)
    with pytest.raises(DataError, match=r"security\.protocol") as caught, file.open() as stream:
        stream.read()
    assert "hunter2" not in str(caught.value)


def test_a_subject_is_refused(cluster):
    with pytest.raises(DataError, match="subject is for nats:// only"):
        list_files(cluster.url("clicks", "?subject=a"))


def test_a_format_that_is_not_text_is_refused(cluster):
    cluster.send(b"a", topic="text")
    with pytest.raises(DataError, match="a stream is read as lines of text"):
        Loader(make_options(cluster.url("text"), format="parquet"), seed=0)


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(UnavailableError, match=r"pip install 'fleetrec\[kafka\]'"):
        list_files("kafka://127.0.0.1:1/clicks")
