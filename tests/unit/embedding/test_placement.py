import pytest

from fleetrec.embedding.placement import is_replicated
from fleetrec.embedding.table import TableConfig

MIB = 1 << 20


@pytest.mark.parametrize(
    ("num_rows", "expected"), [(1, True), (MIB, True), (MIB + 1, False), (None, False)]
)
def test_small_tables_of_fixed_size_are_replicated(num_rows, expected):
    assert is_replicated(TableConfig(name="t", dim=16, num_rows=num_rows), "auto") is expected


@pytest.mark.parametrize("num_rows", [1, 64 * MIB, None])
def test_a_placement_that_is_given_holds_for_all_tables(num_rows):
    table = TableConfig(name="t", dim=16, num_rows=num_rows)
    assert is_replicated(table, "replicated")
    assert not is_replicated(table, "sharded")
