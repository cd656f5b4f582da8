import numpy as np
import pyarrow as pa
import pytest

from fleetrec._native import fingerprint64
from fleetrec.config.features import BucketOptions, ColumnOptions, FeatureOptions
from fleetrec.core.errors import DataError
from fleetrec.features.column import BadValueError, Column
from fleetrec.features.feature import build_feature

HASHED = BucketOptions(hash_buckets=100)
KINDS = {
    "id": {},
    "tag": {"weight_separator": ":"},
    "sequence": {"max_length": 2},
    "combo": {"columns": ("x", "y")},
}


def bucket(text, size=100):
    return fingerprint64(text) % size


def make(kind, **options):
    return build_feature(
        FeatureOptions(**{"name": "f", "kind": kind, "columns": ("x",), **options})
    )


def column(values, *, name="x", kind=None, **options):
    return Column(pa.array(values, kind), ColumnOptions(name=name, **options))


def transform(feature, *columns):
    return feature.transform({one.options.name: one for one in columns})


def lists(found):
    return [
        found.ids[begin:end].tolist()
        for begin, end in zip(found.offsets[:-1], found.offsets[1:], strict=True)
    ]


def test_an_id_is_the_hash_of_its_text_and_an_empty_cell_has_none():
    found = transform(make("id", buckets=HASHED), column(["a", "", "17", None]))
    assert lists(found) == [[bucket("a")], [], [bucket("17")], []]


def test_a_number_is_hashed_as_its_decimals():
    feature = make("id", buckets=HASHED)
    assert lists(transform(feature, column([17, -3]))) == [[bucket("17")], [bucket("-3")]]
    rounded = make("id", buckets=HASHED, precision=1)
    assert lists(transform(rounded, column([1.26]))) == [[bucket("1.3")]]
    assert lists(transform(rounded, column(["1.26", ""]))) == [[bucket("1.3")], []]
    with pytest.raises(BadValueError, match="expected a number, because of precision"):
        transform(rounded, column(["cheap"]))


def test_a_missing_value_is_the_default_of_its_column():
    found = transform(make("id", buckets=HASHED), column(["a", ""], default="none"))
    assert lists(found) == [[bucket("a")], [bucket("none")]]


def test_numbers_outside_the_buckets_are_zero():
    feature = make("id", buckets=BucketOptions(num_buckets=10))
    assert lists(transform(feature, column(["3", "10", "-1", "9"]))) == [[3], [0], [0], [9]]


def test_text_is_no_number_of_a_bucket():
    feature = make("id", buckets=BucketOptions(num_buckets=10))
    with pytest.raises(BadValueError, match="expected a whole number") as caught:
        transform(feature, column(["3", "x7"]))
    assert caught.value.row == 1
    assert str(caught.value).startswith("column 'x': 'x7': ")


def test_a_vocabulary_counts_from_zero_and_others_are_zero(tmp_path):
    words = ("red", "green", "blue")
    listed = make("id", buckets=BucketOptions(vocabulary=words))
    path = tmp_path / "words.txt"
    path.write_text("\n".join(words))
    read = make("id", buckets=BucketOptions(vocabulary_path=str(path)))
    for feature in (listed, read):
        cells = column(["blue", "pink", "red", ""])
        assert lists(transform(feature, cells)) == [[2], [0], [0], []]


def test_a_vocabulary_that_cannot_be_read_is_an_error():
    with pytest.raises(DataError, match=r"vocabulary nowhere\.txt: cannot be read"):
        make("id", buckets=BucketOptions(vocabulary_path="nowhere.txt"))


def test_tags_are_parted_and_empty_ones_dropped():
    found = transform(make("tag", buckets=HASHED), column(["a|b", "", "|c||"]))
    assert lists(found) == [[bucket("a"), bucket("b")], [], [bucket("c")]]
    assert found.weights is None


def test_tags_may_carry_weights():
    feature = make("tag", buckets=HASHED, weight_separator=":")
    found = transform(feature, column(["a:0.5|b", "c:2"]))
    assert lists(found) == [[bucket("a"), bucket("b")], [bucket("c")]]
    assert found.weights.tolist() == [0.5, 1.0, 2.0]


def test_weights_may_stand_in_a_column_of_their_own():
    feature = make("tag", buckets=HASHED, columns=("x", "w"))
    found = transform(feature, column(["a|b", "c"]), column(["1|2", "3"], name="w"))
    assert found.weights.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(BadValueError, match="expected 2 weights") as caught:
        transform(feature, column(["a", "a|b"]), column(["1", "2"], name="w"))
    assert caught.value.row == 1
    assert "column 'w': " in str(caught.value)


@pytest.mark.parametrize("text", ["a:x", "a:nan", "a:"])
def test_a_weight_is_a_finite_number(text):
    with pytest.raises(BadValueError, match="expected a finite number as a weight"):
        transform(make("tag", buckets=HASHED, weight_separator=":"), column([text]))


def test_lists_of_the_data_need_no_separator():
    feature = make("tag", buckets=BucketOptions(num_buckets=10))
    assert lists(transform(feature, column([[1, 2], [], None, [9]]))) == [[1, 2], [], [], [9]]


def test_of_a_long_sequence_the_first_elements_count():
    feature = make("sequence", buckets=BucketOptions(num_buckets=10), max_length=2)
    assert lists(transform(feature, column(["1|2|3", "4", ""]))) == [[1, 2], [4], []]


def test_columns_are_crossed_as_tensorflow_does():
    """Expected numbers are published in TensorFlow's tests of crossed columns."""
    columns = [column([f"batch1-FC{i}-F1"], name=f"c{i}") for i in (1, 2, 3)]
    for num_buckets, expected in ((100, 83), (2**63 - 1, 1971693436396284976)):
        feature = make(
            "combo",
            columns=("c1", "c2", "c3"),
            buckets=BucketOptions(hash_buckets=num_buckets),
        )
        assert lists(transform(feature, *columns)) == [[expected]]


def test_lists_are_crossed_pair_by_pair_and_nothing_with_nothing():
    feature = make("combo", columns=("x", "y"), buckets=HASHED, column_separators=("|", "|"))
    apart = make("combo", columns=("x", "y"), buckets=HASHED)
    found = transform(feature, column(["a|b", "c", ""]), column(["1|2", "3", "4"], name="y"))
    pairs = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "3")]
    single = [lists(transform(apart, column([x]), column([y], name="y")))[0][0] for x, y in pairs]
    assert lists(found) == [single[:4], single[4:], []]


def test_joined_columns_are_hashed_as_one_text():
    feature = make("combo", columns=("x", "y"), buckets=HASHED, join_separator="_")
    found = transform(feature, column(["a", "b"]), column(["1", "2"], name="y"))
    assert lists(found) == [[bucket("a_1")], [bucket("b_2")]]


def test_raw_numbers_are_dense_and_may_be_moved_to_their_range():
    plain = transform(make("raw", is_dense=True, width=2), column(["1|2", "", "0.5|4"]))
    assert plain.values.tolist() == [[1.0, 2.0], [0.0, 0.0], [0.5, 4.0]]
    assert plain.num_present == 2
    ranged = make("raw", is_dense=True, minimum=10, maximum=20)
    assert transform(ranged, column([10.0, 15.0])).values.tolist() == [[0.0], [0.5]]


def test_a_number_on_a_boundary_goes_right():
    feature = make("raw", buckets=BucketOptions(boundaries=(1.0, 2.0)))
    assert lists(transform(feature, column(["0.5", "1", "1.5", "2", "9"]))) == [
        [0],
        [1],
        [1],
        [2],
        [2],
    ]


def test_the_numbers_of_a_vector_have_buckets_of_their_own():
    feature = make("raw", width=2, buckets=BucketOptions(boundaries=(1.0,)))
    assert lists(transform(feature, column(["0|0", "5|5"]))) == [[0, 2], [1, 3]]


def test_buckets_of_equal_width_lie_in_the_range():
    feature = make("raw", minimum=0, maximum=8, buckets=BucketOptions(equal_width=4))
    assert lists(transform(feature, column([-1.0, 0.0, 1.9, 2.0, 8.0]))) == [
        [0],
        [0],
        [0],
        [1],
        [3],
    ]


def test_numbers_without_buckets_are_weights_of_their_places():
    found = transform(make("raw", width=2), column(["1|2", "3|4"]))
    assert lists(found) == [[0, 1], [0, 1]]
    assert found.weights.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_cell_that_is_no_number_is_named():
    with pytest.raises(BadValueError) as caught:
        transform(make("raw", is_dense=True), column(["1", "many"]))
    assert caught.value.row == 1
    assert ": 'many': " in str(caught.value)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_rows_do_not_know_what_stands_beside_them(kind):
    feature = make(kind, buckets=HASHED, **KINDS[kind])
    cells = ["a|b:2", "", "c", "d:0.5|e|f", "g"]
    whole = transform(feature, column(cells), column(cells[::-1], name="y"))
    parts = [
        transform(feature, column([x]), column([y], name="y"))
        for x, y in zip(cells, cells[::-1], strict=True)
    ]
    assert lists(whole) == [lists(part)[0] for part in parts]
    if whole.weights is not None:
        assert np.array_equal(whole.weights, np.concatenate([part.weights for part in parts]))
    assert (
        lists(
            transform(feature, column([], kind=pa.string()), column([], name="y", kind=pa.string()))
        )
        == []
    )
