"""What every type of feature keeps to, in both dialects and from every kind of column."""

import dataclasses
import itertools
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.features import (
    BucketOptions,
    ColumnOptions,
    FeatureKind,
    FeatureOptions,
    FeatureSetOptions,
    IdRule,
)
from fleetrec.config.job import DatasetOptions, DenseSlot, TextTableOptions
from fleetrec.core.errors import DataError
from fleetrec.data.loader import Loader
from fleetrec.features.feature import Feature
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.values import FeatureValues

WORDS = BucketOptions(vocabulary=("none", "red", "green"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A feature ``f``, the same rows as typed columns and as text, and what they become.

    The third row has no value, and the last one a value that no vocabulary knows.
    """

    typed: Mapping[str, Sequence[Any]]
    text: Mapping[str, Sequence[str]]
    expected: Sequence[Any]
    dataset: Mapping[str, Any]

    def options(self, path: object) -> DatasetOptions:
        return DatasetOptions(
            **{"name": "rows", "data_path": str(path), "batch_size": 3, **self.dataset}
        )

    def feature_set(self, *, is_text: bool) -> FeatureSetOptions:
        return dataset_features(self.options("x"), has_text_cells=is_text)


def declared(*columns: str, **options: Any) -> dict[str, Any]:
    feature = FeatureOptions(**{"name": "f", "columns": columns, **options})
    is_dense = feature.is_dense
    return {
        "features": (feature,),
        "columns": tuple(ColumnOptions(name=name) for name in columns),
        "sparse": () if is_dense else ("f",),
        "dense": (DenseSlot(name="f", shape=(feature.width,)),) if is_dense else (),
    }


COLOURS = ["red", "green", "", "blue"]
CASES = {
    "id_list": Case(
        typed={"f": [["red", "green"], ["green"], None, ["blue"]]},
        text={"f": ["red|green", "green", "", "blue"]},
        expected=[[1, 2], [2], [9], [0]],
        dataset={
            "sparse": ("f",),
            "padding": 9,
            "id_rules": {"f": IdRule(vocabulary=("red", "green"))},
        },
    ),
    "dense": Case(
        typed={"f": [[1, 2.5], [-3, 4], None, [0, 1]]},
        text={"f": ["1|2.5", "-3|4", "", "0|1"]},
        expected=[[1, 2.5], [-3, 4], [9, 9], [0, 1]],
        dataset={"dense": (DenseSlot(name="f", shape=(2,)),), "padding": 9},
    ),
    "id": Case(
        typed={"x": COLOURS},
        text={"x": COLOURS},
        expected=[[1], [2], [], [0]],
        dataset=declared("x", buckets=WORDS),
    ),
    "raw": Case(
        typed={"x": [1.0, 3.0, None, 2.0]},
        text={"x": ["1", "3", "", "2"]},
        expected=[[0], [1], [-0.5], [0.5]],
        dataset=declared("x", kind="raw", is_dense=True, minimum=1.0, maximum=3.0),
    ),
    "tag": Case(
        typed={"x": ["red:2|green:0.5", "green", None, "blue:4"]},
        text={"x": ["red:2|green:0.5", "green", "", "blue:4"]},
        expected=[[(1, 2.0), (2, 0.5)], [(2, 1.0)], [], [(0, 4.0)]],
        dataset=declared("x", kind="tag", buckets=WORDS, weight_separator=":"),
    ),
    "sequence": Case(
        typed={"x": [["red", "red", "green"], ["green"], [], ["blue"]]},
        text={"x": ["red|red|green", "green", "", "blue"]},
        expected=[[1, 1], [2], [], [0]],
        dataset=declared("x", kind="sequence", buckets=WORDS, max_length=2),
    ),
    "step_counts": Case(
        typed={"x": ["red;green|red", "green", None, "blue|;|red;red"]},
        text={"x": ["red;green|red", "green", "", "blue|;|red;red"]},
        expected=[[2, 1, 0], [1, 0, 0], [0, 0, 0], [1, 2, 0]],
        dataset=declared(
            "x", kind="step_counts", is_dense=True, width=3, max_length=3, step_separator=";"
        ),
    ),
    "number_sequence": Case(
        typed={"x": ["1;2|3", "5", None, "2|4;5|9"]},
        text={"x": ["1;2|3", "5", "", "2|4;5|9"]},
        expected=[[2, 1, 2, 3, 0], [1, 5, 0, 0, 0], [0] * 5, [2, 2, 0, 4, 5]],
        dataset=declared(
            "x",
            kind="number_sequence",
            is_dense=True,
            width=5,
            max_length=2,
            step_separator=";",
            step_width=2,
        ),
    ),
    "expr": Case(
        typed={"x": [1.0, 3.0, None, 2.0], "y": [2.0, 2.0, 2.0, 2.0]},
        text={"x": ["1", "3", "", "2"], "y": ["2", "2", "2", "2"]},
        expected=[[0], [1], [0], [1]],
        dataset=declared("x", "y", kind="expr", is_dense=True, expression="(x >= y) & (x > 0)"),
    ),
    "lookup": Case(
        typed={"x": ["a", "b", "", "c"], "y": ["a:red|a:green", "b:green", "a:red", "c:blue"]},
        text={"x": ["a", "b", "", "c"], "y": ["a:red|a:green", "b:green", "a:red", "c:blue"]},
        expected=[[1, 2], [2], [], [0]],
        dataset=declared("x", "y", kind="lookup", buckets=WORDS, weight_separator=":"),
    ),
    "combo": Case(
        typed={"x": ["r", "g", "", "b"], "y": ["ed", "reen", "reen", "lue"]},
        text={"x": ["r", "g", "", "b"], "y": ["ed", "reen", "reen", "lue"]},
        expected=[[1], [2], [], [0]],
        dataset=declared("x", "y", kind="combo", join_separator="", buckets=WORDS),
    ),
}


@pytest.fixture(params=sorted(CASES))
def case(request) -> Case:
    return CASES[request.param]


def rows_of(values: FeatureValues) -> list[Any]:
    """Return the feature row by row; ids that have weights are pairs."""
    if "f" in values.dense:
        return values.dense["f"].tolist()
    keyed = values.keyed_ids()
    return to_rows(keyed.ids, keyed.offsets, keyed.weights)


def to_rows(ids: Any, offsets: Any, weights: Any) -> list[Any]:
    pairs = list(zip(ids.tolist(), [] if weights is None else weights.tolist(), strict=False))
    found = ids.tolist() if weights is None else pairs
    ends = offsets.tolist()
    return [found[begin:end] for begin, end in itertools.pairwise(ends)]


def read(options: DatasetOptions) -> list[Any]:
    rows: list[Any] = []
    with Loader(options, seed=0).epoch(0) as batches:
        for batch in batches:
            if "f" in batch.dense:
                rows += batch.dense["f"].tolist()
            else:
                ids = batch.ids
                rows += to_rows(ids.values_N, ids.offsets, ids.weights_N)
    return rows


def test_every_type_of_feature_has_a_case():
    kinds = {*get_args(FeatureKind), "id_list", "dense"}
    for case in CASES.values():
        FeatureSet(case.feature_set(is_text=False))
    assert set(CASES) == kinds == set(Feature.family)


def test_files_and_tables_give_the_same_values(case, tmp_path):
    csv, parquet = tmp_path / "a.csv", tmp_path / "a.parquet"
    pa.csv.write_csv(pa.table(dict(case.text)), csv)
    pa.parquet.write_table(pa.table(dict(case.typed)), parquet)
    from_csv = read(case.options(csv))
    from_parquet = read(case.options(parquet))
    typed = FeatureSet(case.feature_set(is_text=False)).transform(pa.table(dict(case.typed)))
    cells = FeatureSet(case.feature_set(is_text=True)).transform(case.text)
    assert from_csv == from_parquet == rows_of(typed) == rows_of(cells) == case.expected


def test_a_row_without_a_value_is_counted_and_raises_nothing(case):
    features = FeatureSet(case.feature_set(is_text=False))
    nulls = {name: pa.array([None, None], pa.string()) for name in case.typed}
    if "dense" in case.dataset and "features" not in case.dataset:
        nulls = {name: pa.array([None, None], pa.float32()) for name in case.typed}
    values = features.transform(nulls)
    assert values.num_present == {"f": 0}
    assert rows_of(values) == [case.expected[2]] * 2


def test_no_rows_are_no_values(case):
    features = FeatureSet(case.feature_set(is_text=False))
    table = pa.table(dict(case.typed)).slice(0, 0)
    values = features.transform(table)
    assert values.num_rows == 0
    assert rows_of(values) == []


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_rows_do_not_depend_on_how_they_are_split(case, at):
    features = FeatureSet(case.feature_set(is_text=False))
    table = pa.table(dict(case.typed))
    halves = [features.transform(half) for half in (table.slice(0, at), table.slice(at))]
    assert rows_of(halves[0]) + rows_of(halves[1]) == rows_of(features.transform(table))


def test_rules_can_be_stored_and_sent(case):
    options = case.feature_set(is_text=False)
    read_back = FeatureSetOptions.model_validate_json(options.model_dump_json())
    sent = pickle.loads(pickle.dumps(FeatureSet(options)))
    assert read_back == options
    for features in (FeatureSet(read_back), sent):
        assert rows_of(features.transform(case.typed)) == case.expected


def test_a_bad_value_is_named_with_its_row():
    features = FeatureSet(CASES["dense"].feature_set(is_text=False))
    with pytest.raises(DataError, match=r"data set rows: row 2: column 'f': .*expected 2 numbers"):
        features.transform({"f": [[1, 2], [1, 2, 3]]})


def test_a_missing_column_of_a_declared_feature_is_an_error():
    features = FeatureSet(CASES["id"].feature_set(is_text=False))
    with pytest.raises(DataError, match="made of column 'x', which the data does not have; it has"):
        features.transform({"y": ["red"]})


def test_weights_of_slots_come_from_cells_and_from_maps():
    dataset = {"name": "rows", "data_path": "x", "batch_size": 3, "sparse": ("f",), "padding": 9}
    table = TextTableOptions(weight_separator=":")
    text = dataset_features(DatasetOptions(**dataset, text_table=table), has_text_cells=True)
    cells = FeatureSet(text).transform({"f": ["5:2|6:0.5", "", "7"]})
    maps = pa.array([[(5, 2.0), (6, 0.5)], [], [(7, None)]], pa.map_(pa.int64(), pa.float32()))
    typed = FeatureSet(dataset_features(DatasetOptions(**dataset))).transform({"f": maps})
    assert rows_of(cells) == rows_of(typed) == [[(5, 2.0), (6, 0.5)], [(9, 1.0)], [(7, 1.0)]]


def test_a_slot_without_a_column_is_all_padding():
    for kind, padding in (("id_list", [9]), ("dense", [9, 9])):
        values = FeatureSet(CASES[kind].feature_set(is_text=False)).transform({"other": [1, 2]})
        assert rows_of(values) == [padding, padding]
        assert values.num_present == {"f": 0}


def test_arrays_of_numpy_are_columns_too():
    dense = FeatureSet(CASES["dense"].feature_set(is_text=False))
    values = dense.transform({"f": np.array([[1, 2], [3, 4]], np.float32)})
    assert values.dense["f"].tolist() == [[1, 2], [3, 4]]


def test_features_need_no_torch():
    program = (
        "import sys\n"
        "from fleetrec.config.features import FeatureSetOptions, IdListOptions\n"
        "from fleetrec.features.feature_set import FeatureSet\n"
        "options = FeatureSetOptions(features=(IdListOptions(name='f'),))\n"
        "values = FeatureSet(options).transform({'f': [[1, 2], [3]]})\n"
        "assert values.keyed_ids().ids.tolist() == [1, 2, 3]\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
