"""Cutting a stream into ranges."""

from fleetrec.core.stream_url import parse_url
from fleetrec.data.streams import ranges
from fleetrec.data.streams.client import Message
from fleetrec.data.streams.ranges import freeze, limited, num_messages

URL = parse_url("kafka://a:9092/clicks")


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


def test_a_limit_is_shared_by_the_partitions():
    begins, ends = {0: 0, 1: 100}, {0: 30, 1: 110, 2: 20}
    assert num_messages(begins, ends) == 60
    assert limited(begins, ends, 60) == ends
    some = limited(begins, ends, 13)
    assert num_messages(begins, some) == 13
    assert some == {0: 6, 1: 102, 2: 5}
    assert num_messages(begins, limited(begins, ends, 1)) == 1
