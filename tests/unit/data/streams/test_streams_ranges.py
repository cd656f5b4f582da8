"""Positions in a stream as people write them."""

import datetime

import pytest

from fleetrec.core.errors import DataError
from fleetrec.data.streams import ranges
from fleetrec.data.streams.client import Message
from fleetrec.data.streams.ranges import Start, freeze, parse_start
from fleetrec.data.streams.url import parse_url

URL = parse_url("kafka://a:9092/clicks")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(at="earliest")),
        ("latest", Start(at="latest")),
        ("1650765731", Start(event_time_s=1650765731)),
        ('{"timestamp": 1650765731}', Start(event_time_s=1650765731)),
        ("0:5,1:7", Start(offsets={0: 5, 1: 7})),
        ('{"0": 5, "1": 7}', Start(offsets={0: 5, 1: 7})),
    ],
)
def test_a_position_is_parsed(text, start):
    assert parse_start(text, where="offset_info") == start


def test_a_time_without_a_zone_is_local_time():
    local = datetime.datetime(2022, 9, 7, 12).timestamp()
    assert parse_start("20220907 12:00:00", where="x").event_time_s == local


@pytest.mark.parametrize("text", ["newest", "0:5,1", "{}", "{'0': 5}", '{"0": -1}', '{"a": 1}'])
def test_another_position_is_an_error_that_names_its_place(text):
    with pytest.raises(DataError, match=r"^offset_info: expected "):
        parse_start(text, where="offset_info")


class Counting:
    """Every offset is a message of three bytes whose time is its offset."""

    def read(self, partition, begin, end):
        yield [Message(offset, 1000 * partition + offset, b"abc") for offset in range(begin, end)]


def names(frozen):
    return [one.url.name for one in frozen.ranges]


def test_ranges_cover_what_is_between_two_positions():
    frozen = freeze(Counting(), URL, {0: 2, 1: 5}, {0: 10, 1: 5, 2: 3})
    assert names(frozen) == ["clicks/0/2-10", "clicks/2/0-3"]
    assert [one.num_bytes for one in frozen.ranges] == [32, 12]
    assert frozen.ends == {0: 10, 1: 5, 2: 3}
    assert frozen.time_ms == 2002


def test_long_ranges_are_cut_into_equal_parts(monkeypatch):
    monkeypatch.setattr(ranges, "MAX_MESSAGES", 4)
    frozen = freeze(Counting(), URL, {0: 0}, {0: 10})
    assert names(frozen) == ["clicks/0/0-3", "clicks/0/3-6", "clicks/0/6-10"]


def test_there_are_as_many_ranges_as_workers_or_messages():
    frozen = freeze(Counting(), URL, {0: 0, 1: 0}, {0: 5, 1: 5}, min_ranges=4)
    assert len(frozen.ranges) >= 4
    assert len(freeze(Counting(), URL, {0: 0}, {0: 2}, min_ranges=4).ranges) == 2


def test_nothing_is_frozen_where_there_is_nothing():
    frozen = freeze(Counting(), URL, {0: 4}, {0: 4})
    assert (frozen.ranges, frozen.time_ms) == ((), 0)
