"""A first pipeline: its label, and what its features become."""

import dataclasses

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.planning.first_pipeline import DataPaths, choose_label, pipeline_text, training_size
from fleetrec.planning.table_profile import ColumnProfile, TableFormat, TableProfile

PATHS = DataPaths(train="train.csv", evaluate="eval.csv", num_train=5000, how="Split.")
COLUMN = ColumnProfile(
    name="", kind="id", is_text=False, num_unique=2, missing_share=0.0, reason="integers"
)


def column(name, **changes):
    return dataclasses.replace(COLUMN, name=name, **changes)


def profile(*columns):
    table = TableFormat(format="csv", separator="\t", has_header=True)
    return TableProfile(format=table, columns=columns, num_rows=100, is_whole=True)


@pytest.mark.parametrize(
    ("columns", "given", "chosen"),
    [
        ({"click": True, "sex": True, "user": False}, None, "click"),
        ({"bought": True, "user": False}, None, "bought"),
        ({"a": True, "b": True}, "b", "b"),
    ],
)
def test_a_label_is_chosen(columns, given, chosen):
    table = profile(*(column(name, is_binary=binary) for name, binary in columns.items()))
    assert choose_label(table, given).name == chosen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"Give it by --label\. Columns with values 0 and 1: a, b"),
        ("c", r"--label c: expected values 0 and 1, got 9 values"),
        ("d", r"--label d: no such column; known: a, b, c"),
    ],
)
def test_a_label_that_is_not_clear_is_asked_for(given, message):
    table = profile(
        column("a", is_binary=True), column("b", is_binary=True), column("c", num_unique=9)
    )
    with pytest.raises(ConfigError, match=message):
        choose_label(table, given)


def test_features_follow_the_kinds_of_columns():
    table = profile(
        column("click", is_binary=True),
        column("user", is_text=True, num_unique=40),
        column("tags", kind="list", is_text=True, list_separator="|", num_unique=9),
        column("price", kind="number", quantiles=(1.5, 2.0), median=1.7, missing_share=0.25),
        column("day", kind="time", reason="a time"),
    )
    text = pipeline_text(table, table.columns[0], PATHS, model_dir="m", source="data.csv")
    for expected in (
        'input_fields { input_name: "price" input_type: DOUBLE default_val: "1.7" }',
        'input_names: "user" feature_type: IdFeature hash_bucket_size: 500 embedding_dim: 8',
        'input_names: "tags" feature_type: TagFeature hash_bucket_size: 100 separator: "|"',
        'input_names: "price" feature_type: RawFeature boundaries: [1.5, 2]',
        'metrics_set { gauc { uid_field: "user" } }',
        'separator: "\\t"',
        "#   day: a time",
    ):
        assert expected in text
    assert 'input_name: "day"' not in text


def test_a_table_of_nothing_but_the_label_is_refused():
    table = profile(column("click", is_binary=True))
    with pytest.raises(ConfigError, match="no column but the label"):
        pipeline_text(table, table.columns[0], PATHS, model_dir="m", source="data.csv")


def test_small_data_is_read_several_times():
    sizes = [training_size(n) for n in (1000, 50_000, 500_000, 50_000_000)]
    assert [size.num_epochs for size in sizes] == [3, 2, 1, 1]
    assert [size.batch_size for size in sizes] == [64, 256, 1024, 4096]
