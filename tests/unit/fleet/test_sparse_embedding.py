"""Tables of a program, declared as Paddle declares them."""

import pytest

from fleetrec import fleet
from fleetrec.embedding.table import Admission, Eviction, TableConfig


@pytest.mark.parametrize(
    ("entry", "admission"),
    [
        (None, Admission()),
        (fleet.CountFilterEntry(1), Admission()),
        (fleet.CountFilterEntry(10), Admission(kind="count", threshold=10)),
        (fleet.ProbabilityEntry(0.1), Admission(kind="probability", threshold=0.1)),
    ],
)
def test_an_entry_says_which_ids_get_a_row(entry, admission):
    table = fleet.sparse_embedding("items", size=[1024, 8], entry=entry)
    assert table == TableConfig(name="items", dim=8, admission=admission)
    assert not table.counts_clicks


def test_an_entry_of_shows_and_clicks_names_the_label():
    entry = fleet.ShowClickEntry("show", "click")
    eviction = Eviction(max_rows=9)
    table = fleet.sparse_embedding("items", [1, 8], entry=entry, eviction=eviction)
    assert (table.click_label, table.counts_clicks, table.eviction) == ("click", True, eviction)


def test_a_size_without_a_width_is_refused():
    with pytest.raises(ValueError, match=r"items: expected a size \[any, width\], got \[8\]"):
        fleet.sparse_embedding("items", [8])
