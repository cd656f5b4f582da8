"""URLs of streams and ranges; secrets stay out of them."""

import pytest

from fleetrec.core.errors import DataError
from fleetrec.core.stream_url import is_stream, masked, parse_url


@pytest.mark.parametrize(
    "text",
    [
        "kafka://a:9092,b:9092/clicks",
        "kafka://a:9092/clicks?partition=3&begin=5&end=10",
        "kafka://a:9092/clicks?start=0:5,1:7&retry_s=2.5&fetch.max.bytes=100",
        "nats://a:4222/CLICKS?subject=shop.*&config_file=/etc/nats.conf",
        "nats://a:4222/CLICKS?partition=0&begin=1&end=10",
    ],
)
def test_a_url_is_written_as_it_was_read(text):
    assert is_stream(text)
    assert str(parse_url(text)) == text


def test_a_range_has_a_name_and_belongs_to_a_stream():
    url = parse_url("kafka://a:9092/clicks?partition=3&begin=5&end=10&retry_s=7")
    assert (url.partition, url.begin, url.end, url.is_range) == (3, 5, 10, True)
    assert url.name == "clicks/3/5-10"
    assert str(url.stream) == "kafka://a:9092/clicks?retry_s=7"
    assert str(url.stream.to_range(0, 1, 2)) == (
        "kafka://a:9092/clicks?partition=0&begin=1&end=2&retry_s=7"
    )


def test_a_stream_of_nats_is_one_partition():
    assert parse_url("nats://a:4222/S?begin=1&end=3").partition == 0


def test_other_paths_are_no_streams():
    assert not is_stream("s3://bucket/kafka")
    assert not is_stream("kafka")
    with pytest.raises(DataError, match="expected kafka://"):
        parse_url("s3://bucket/day")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafka://a:9092", "expected kafka://host:port/topic"),
        ("nats:///S", "expected nats://host:port/STREAM"),
        ("kafka://a/t?partition=0", "given together"),
        ("kafka://a/t?begin=0&end=1", "given together"),
        ("kafka://a/t?partition=0&begin=2&end=1", r"end \(1\) is before begin \(2\)"),
        ("kafka://a/t?partition=0&begin=-1&end=1", "begin: expected a whole number"),
        ("kafka://a/t?retry_s=soon", "retry_s: expected seconds, got 'soon'"),
        ("kafka://a/t?begn=0", "'begn' is unknown; expected partition"),
        ("kafka://a/t?start=1&start=2", "start is given twice"),
    ],
)
def test_a_wrong_url_is_an_error_that_says_why(text, message):
    with pytest.raises(DataError, match=message):
        parse_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "nats://anna:hunter2@a:4222/S",
        "kafka://a:9092/t?sasl.password=hunter2",
        "nats://a:4222/S?token=hunter2",
        "kafka://a:9092/t?ssl.key.pem=hunter2",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_shown(text):
    with pytest.raises(DataError, match="config_file=PATH") as caught:
        parse_url(text)
    assert "hunter2" not in str(caught.value)


def test_values_of_secrets_are_masked():
    options = {"sasl.password": "hunter2", "client.id": "me", "token": ""}
    assert masked("me:\n hunter2 is wrong", options) == "me: *** is wrong"
