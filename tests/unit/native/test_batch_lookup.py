"""The arrays that lookups take and give."""

import numpy as np
import pytest

from fleetrec._native import BatchLookup, fold_ids
from making_tables import columns, make_native_table
from reference.fold_id import fold_id

DIM = 2


def find(lookup, *lists, weights=None, num_samples=2):
    """Lists of column 0, then of column 1, and so on."""
    ids = np.array([i for some in lists for i in some], np.int64)
    offsets = np.cumsum([0, *(len(some) for some in lists)])
    lookup.find(ids, offsets, num_samples, weights, training=True)


def make_mixed(table):
    """One pooled feature and one sequence over two columns."""
    lookup = BatchLookup([table], [(0, 0, "sum"), (1, 0, "none")], [])
    find(lookup, [1], [2], [2, 3], [])
    return lookup


def make_grads():
    pooled = np.arange(4, dtype=np.float32).reshape(2, DIM)
    padded = np.full((2, 3, DIM), 9.0, np.float32)  # what stands behind a list does not matter
    back_to_back = np.array([[1, 2], [3, 4]], np.float32)
    padded[0, :2] = back_to_back
    return pooled, padded, back_to_back


def rows_after(pooled, sequences):
    table = make_native_table(optimizer="adam")
    make_mixed(table).apply(pooled, sequences, lr=0.1)
    return columns(table)["rows"]


def test_a_sequence_is_padded_or_back_to_back():
    table = make_native_table()
    lookup = make_mixed(table)
    padded, gathered = np.ones((2, 4, DIM), np.float32), np.empty((2, DIM), np.float32)
    lookup.pad(0, padded)
    lookup.gather(0, gathered)
    assert lookup.lengths(0).tolist() == [2, 0]
    assert np.array_equal(gathered, columns(table)["rows"][1:])
    assert np.array_equal(padded[0, :2], gathered)
    assert not padded[0, 2:].any()
    assert not padded[1].any()


def test_gradients_of_sequences_may_be_padded_or_back_to_back():
    pooled, padded, back_to_back = make_grads()
    assert np.array_equal(rows_after(pooled, [padded]), rows_after(pooled, [back_to_back]))
    assert not np.array_equal(rows_after(pooled, [padded]), rows_after(pooled, [None]))


def test_rows_of_the_pooled_gradient_may_lie_apart():
    pooled, padded, _ = make_grads()
    wide = np.full((2, 7), 5.0, np.float32)
    wide[:, 3:5] = pooled
    assert np.array_equal(rows_after(wide[:, 3:5], [padded]), rows_after(pooled, [padded]))
    same = np.broadcast_to(np.ones((1, DIM), np.float32), (2, DIM))
    assert np.array_equal(rows_after(same, [None]), rows_after(same.copy(), [None]))


@pytest.mark.parametrize("sequences", [(), [None]])
def test_without_any_gradient_nothing_moves(sequences):
    table = make_native_table(optimizer="adamw")
    lookup = make_mixed(table)
    before = columns(table)["rows"]
    assert [len(ids) for ids, _ in lookup.apply_returning_grads(None, sequences, lr=0.1)] == [0]
    lookup.apply(None, sequences, lr=0.1)
    assert np.array_equal(columns(table)["rows"], before)


def test_what_moved_is_told_with_its_sum():
    pooled, padded, _ = make_grads()
    lookup = make_mixed(make_native_table())
    ((ids, sums),) = lookup.apply_returning_grads(pooled, [padded], lr=0.1)
    told = {int(i): grad.tolist() for i, grad in zip(ids, sums, strict=True)}
    assert told == {1: [0, 1], 2: [2 + 1, 3 + 2], 3: [3, 4]}


@pytest.mark.parametrize(
    "pooled",
    [
        np.zeros((2, 2 * DIM), np.float32)[:, ::2],  # numbers apart
        np.zeros((2, DIM), np.float32)[::-1],
        np.zeros((2, DIM + 1), np.float32),
        np.zeros((3, DIM), np.float32),
    ],
)
def test_a_pooled_gradient_of_another_shape_is_refused(pooled):
    with pytest.raises(ValueError, match="gradient"):
        rows_after(pooled, [None])


@pytest.mark.parametrize(
    "sequence",
    [
        np.zeros((2, 1, DIM), np.float32),
        np.zeros((3, 2, DIM), np.float32),
        np.zeros((2, 2, DIM + 1), np.float32),
        np.zeros((3, DIM), np.float32),
        np.zeros(4, np.float32),
    ],
)
def test_a_gradient_of_a_sequence_of_another_shape_is_refused(sequence):
    with pytest.raises(ValueError, match="gradient of a sequence"):
        rows_after(None, [sequence])


def test_arrays_of_another_type_are_refused():
    pooled, padded, _ = make_grads()
    with pytest.raises(TypeError):
        rows_after(pooled.astype(np.float64), [None])
    with pytest.raises(TypeError):
        rows_after(pooled, [padded.astype(np.float64)])
    with pytest.raises(TypeError):
        rows_after(pooled, [np.asfortranarray(padded)])


def test_weights_by_hand():
    table = make_native_table(dim=1)
    names = ("sum", "mean", "sqrtn")
    lookup = BatchLookup([table], [(0, 0, name) for name in names], [])
    find(lookup, [1, 2], [1], weights=np.array([3.0, 4.0, 0.0], np.float32))
    first, second = columns(table)["rows"][:, 0]
    vectors = np.empty((2, 3), np.float32)
    lookup.pool(vectors)
    weighted = 3 * first + 4 * second
    expected = [weighted, weighted / 7, weighted / 5]
    np.testing.assert_allclose(vectors, [expected, [0, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, np.nan], []])
def test_weights_that_do_not_fit_are_refused(weights):
    lookup = BatchLookup([make_native_table()], [(0, 0, "sum")], [])
    with pytest.raises(ValueError, match="weight"):
        find(lookup, [1, 2], [1], weights=np.array(weights, np.float32))


def test_an_id_out_of_range_is_told_with_its_feature():
    tables = [make_native_table(name="a"), make_native_table(name="b", num_rows=5)]
    lookup = BatchLookup(tables, [(0, 0, "sum"), (0, 1, "none")], [], {1: 2})
    with pytest.raises(IndexError) as caught:
        find(lookup, [9, 1, 2], [3, 8])
    assert caught.value.args == (1, 8)  # 9 is cut off


def test_a_length_of_no_feature_is_refused():
    with pytest.raises(ValueError, match="no such feature"):
        BatchLookup([make_native_table()], [(0, 0, "none")], [], {1: 2})


# From the seed 1234567 SplitMix64 draws 6457827717110365317 first: a published value.
@pytest.mark.parametrize(
    ("i", "num_rows", "row"),
    [
        (1234567, 10**6, 6457827717110365317 % 10**6),
        (1234567, 1000, 317),
        (3, 5, 3),
        (5, 5, 3),
        (-1, 1000, 936),
        (2**63, 10**12 + 39, 822159818637),
    ],
)
def test_golden_rows_of_hashed_ids(i, num_rows, row):
    signed = np.array([i], np.uint64 if i >= 2**63 else np.int64).view(np.int64)
    assert fold_ids(signed, num_rows=num_rows).tolist() == [row]


def test_ids_are_hashed_as_the_slow_twin_does():
    ids = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000)
    ids[:20] = np.arange(20)
    for num_rows in (1, 7, 10**6, 2**40 + 5):
        expected = [fold_id(int(i), num_rows) for i in ids]
        assert fold_ids(ids, num_rows=num_rows).tolist() == expected
    with pytest.raises(ValueError, match="num_rows must be at least 1"):
        fold_ids(ids, num_rows=0)


def test_a_table_that_hashes_finds_evicts_and_adds_by_the_same_rows():
    table = make_native_table(num_rows=7, hash_ids=True)
    ids = np.array([2**62, -5, 3], np.int64)
    rows = table.pull(ids, create=True)
    folded = fold_ids(ids, num_rows=7)
    assert np.array_equal(table.pull(folded, create=False), rows)
    assert columns(table)["ids"].tolist() == sorted(set(folded.tolist()))
    copy = make_native_table(num_rows=7, hash_ids=True)
    copy.add_rows(ids=columns(table)["ids"], rows=columns(table)["rows"])
    assert np.array_equal(copy.pull(ids, create=False), rows)
    assert table.evict(ids[:1]) == 1
    assert not table.pull(ids[:1], create=False).any()
