import numpy as np
import pyarrow as pa
import pytest

from fleetrec._native import fingerprint64
from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.job import DenseSlot
from fleetrec.core.errors import DataError
from fleetrec.data.columns import RowValues, assemble
from fleetrec.features.column import BadValueError
from fleetrec.features.feature_set import FeatureSet
from making_data import make_options


def decode(column, *, width=None, padding=0, sliced=False):
    """One column as a feature; sliced: as the middle of a longer one."""
    if sliced:
        column = pa.concat_arrays([column, column, column]).slice(len(column), len(column))
    dense = () if width is None else (DenseSlot(name="f", shape=(width,)),)
    sparse = ("f",) if width is None else ()
    options = make_options("x", sparse=sparse, dense=dense, padding=padding)
    rows = pa.record_batch([column], ["f"])
    features = FeatureSet(dataset_features(options))
    features.check_schema(rows.schema, where="file")
    return assemble(options, [RowValues(values=features.transform_rows(rows))])


def ids(block):
    jagged = block.ids["f"]
    return [part.tolist() for part in jagged.values.split(jagged.lengths().tolist())]


def hashed(text):
    return int(np.uint64(fingerprint64(text)).astype(np.int64))


A, B = hashed("a"), hashed("b")
each_slice = pytest.mark.parametrize("sliced", [False, True])


@each_slice
@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], pa.int64(), [[1], [2]]),
        ([1, None, 2], pa.int64(), [[1], [9], [2]]),
        ([2**64 - 1, None], pa.uint64(), [[-1], [9]]),
        ([-1, 5], pa.int8(), [[-1], [5]]),
        ([True, False, None], pa.bool_(), [[1], [0], [9]]),
        ([None, None], pa.null(), [[9], [9]]),
        (["a", "", None, "7"], pa.string(), [[A], [9], [9], [7]]),
        (["a", None], pa.large_string(), [[A], [9]]),
        ([b"a", b"b"], pa.binary(), [[A], [B]]),
        (["a", None, "b"], pa.string_view(), [[A], [9], [B]]),
        (["a", None, "", "a"], pa.dictionary(pa.int32(), pa.string()), [[A], [9], [9], [A]]),
        ([5, None, 5], pa.dictionary(pa.int8(), pa.int64()), [[5], [9], [5]]),
        ([[1, 2], [], None, [3]], pa.list_(pa.int64()), [[1, 2], [9], [9], [3]]),
        ([[1, None, 2], [None]], pa.list_(pa.int32()), [[1, 2], [9]]),
        ([["a", ""], [""], ["b", "a"]], pa.list_(pa.string()), [[A], [9], [B, A]]),
        ([["a"], None], pa.large_list(pa.large_string()), [[A], [9]]),
        ([[1, 2], None, [3, 4]], pa.list_(pa.uint16(), 2), [[1, 2], [9], [3, 4]]),
        (
            [["a", "b"], ["a", None]],
            pa.list_(pa.dictionary(pa.int32(), pa.string())),
            [[A, B], [A]],
        ),
    ],
)
def test_every_type_of_ids(values, kind, expected, sliced):
    block = decode(pa.array(values, kind), padding=9, sliced=sliced)
    assert ids(block) == expected
    assert block.ids.weights_N is None
    assert block.counts.seen.tolist() == [sum(row != [9] for row in expected)]


@each_slice
def test_a_map_has_weights(sliced):
    column = pa.array(
        [[("a", 0.5), ("b", None)], None, [("", 3.0), ("7", 2.0)]],
        pa.map_(pa.string(), pa.float64()),
    )
    block = decode(column, padding=9, sliced=sliced)
    assert ids(block) == [[A, B], [9], [7]]
    assert block.ids.weights_N.tolist() == [0.5, 1.0, 1.0, 2.0]


def test_values_behind_a_null_list_do_not_count():
    column = pa.ListArray.from_arrays(
        pa.array([0, 2, 4]), pa.array([1, 2, 3, 4]), mask=pa.array([True, False])
    )
    assert ids(decode(column, padding=9)) == [[9], [3, 4]]


@each_slice
@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1.5, None], pa.float32(), [[1.5], [9]]),
        ([0.1], pa.float64(), [[np.float32(0.1)]]),
        ([2**53 + 1, None], pa.int64(), [[2.0**53], [9]]),
        ([True, False], pa.bool_(), [[1], [0]]),
        ([None], pa.null(), [[9]]),
        ([0.25], pa.float16(), [[0.25]]),
        ([0.5, None], pa.dictionary(pa.int8(), pa.float64()), [[0.5], [9]]),
        ([[1.0, 2.0], None, []], pa.list_(pa.float32()), [[1, 2], [9, 9], [9, 9]]),
        ([[1, 2], None], pa.list_(pa.int64(), 2), [[1, 2], [9, 9]]),
    ],
)
def test_every_type_of_numbers(values, kind, expected, sliced):
    block = decode(pa.array(values, kind), width=len(expected[0]), padding=9, sliced=sliced)
    assert block.dense["f"].tolist() == np.array(expected, np.float32).tolist()
    num_missing = sum(value in (None, []) for value in values)
    assert block.counts.seen.tolist() == [len(values) - num_missing]


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1.0, float("nan")], pa.float32(), "column 'f': 'nan': expected a finite number"),
        ([1.0, 1e39], pa.float64(), "column 'f': '1e[+]39': expected a finite number"),
    ],
)
def test_a_number_that_is_not_finite_is_refused(values, kind, message):
    with pytest.raises(BadValueError, match=message) as caught:
        decode(pa.array(values, kind), width=1)
    assert caught.value.row == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1.0], "expected 2 numbers, got 1"),
        ([1.0, 2.0, 3.0], "expected 2 numbers, got 3"),
        ([1.0, None], "expected a finite number"),
    ],
)
def test_a_bad_vector_is_refused(row, message):
    with pytest.raises(BadValueError, match=message) as caught:
        decode(pa.array([[1.0, 2.0], None, row], pa.list_(pa.float64())), width=2)
    assert caught.value.row == 2


def test_a_weight_that_is_not_finite_is_refused():
    column = pa.array([[], [("a", 1.0)], [("a", float("inf"))]], pa.map_(pa.string(), pa.float32()))
    with pytest.raises(BadValueError, match="'inf': weight: expected a finite") as caught:
        decode(column)
    assert caught.value.row == 2


@pytest.mark.parametrize(
    "kind",
    [
        pa.float64(),
        pa.list_(pa.float32()),
        pa.timestamp("s"),
        pa.list_(pa.list_(pa.int64())),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.int64(), pa.string()),
        pa.dictionary(pa.int8(), pa.float32()),
    ],
)
def test_a_column_that_holds_no_ids_is_refused(kind):
    with pytest.raises(DataError, match=r"^file: column 'f': ids are integers, text"):
        decode(pa.array([], kind))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.string()), pa.map_(pa.int64(), pa.float32()), pa.date32()]
)
def test_a_column_that_holds_no_numbers_is_refused(kind):
    with pytest.raises(DataError, match=r"^file: column 'f': a dense feature is made of numbers"):
        decode(pa.array([], kind), width=1)


def test_columns_of_the_same_name_are_refused():
    schema = pa.schema([("f", pa.int64()), ("f", pa.int64())])
    with pytest.raises(DataError, match=r"^file: .*'f' twice"):
        features = FeatureSet(dataset_features(make_options("x", sparse=("f",), dense=())))
        features.check_schema(schema, where="file")
