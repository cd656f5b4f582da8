"""Entries, as text and as mappings."""

import pytest

from fleetrec.config.entries import (
    CountFilterEntry,
    ProbabilityEntry,
    ShowClickEntry,
    read_entry,
)


@pytest.mark.parametrize(
    ("text", "mapping", "entry"),
    [
        ("count_filter_entry:10", {"class": "CountFilterEntry", "count": 10}, CountFilterEntry(10)),
        (
            "probability_entry:0.1",
            {"class": "ProbabilityEntry", "probability": 0.1},
            ProbabilityEntry(0.1),
        ),
        (
            "show_click_entry:show:click",
            {"class": "ShowClickEntry", "show": "show", "click": "click"},
            ShowClickEntry("show", "click"),
        ),
    ],
)
def test_an_entry_is_text_or_a_mapping(text, mapping, entry):
    assert read_entry(text) == read_entry(mapping) == read_entry(entry) == entry


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("count_filter:3", "no entry is called 'count_filter'; did you mean 'count_filter_entry'"),
        ("count_filter_entry", "expected count, got 0 values"),
        ("count_filter_entry:x", "expected a whole number from 0 to 65535, got 'x'"),
        ("count_filter_entry:70000", "from 0 to 65535, got 70000"),
        ("probability_entry:1.5", "above 0 and up to 1, got 1.5"),
        ("show_click_entry:show", "expected show and click, got 1 values"),
        ({"class": "CountFilter"}, "no entry is called 'CountFilter'; did you mean"),
        ({"class": "CountFilterEntry", "counts": 1}, "unknown key 'counts'; did you mean 'count'"),
        ({"class": "ShowClickEntry", "show": "s"}, "click is required, but missing"),
        (7, "expected an entry such as"),
    ],
)
def test_other_entries_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        read_entry(given)
