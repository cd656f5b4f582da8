"""Positions in a stream as people write them."""

import datetime

import pytest

from fleetrec.core.errors import DataError
from fleetrec.core.stream_start import Start, parse_start


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
