"""Lists of ids as a user feeds them."""

import numpy as np
import pytest

from fleetrec.core.errors import DataError
from fleetrec.export.id_lists import IdLists

IDS = [[5, 6, 7], [], [8]]


def make(ids=IDS, weights=None):
    return IdLists.of("item", ids, weights)


def test_lists_are_put_back_to_back_with_weight_1():
    lists = make()
    assert lists.ids_N.tolist() == [5, 6, 7, 8]
    assert lists.lengths_B.tolist() == [3, 0, 1]
    assert lists.samples_N.tolist() == [0, 0, 0, 2]
    assert lists.weights_N.tolist() == [1, 1, 1, 1]


def test_ids_are_64_bits_however_they_are_written():
    assert make([[2**64 - 1, -1, 2**63]]).ids_N.tolist() == [-1, -1, -(2**63)]
    assert make(np.array([[1], [2]])).lengths_B.tolist() == [1, 1]


def test_the_last_ids_of_long_lists_stay():
    assert make().last(None).ids_N.tolist() == [5, 6, 7, 8]
    assert make().last(2).ids_N.tolist() == [6, 7, 8]
    assert make().last(2).lengths_B.tolist() == [2, 0, 1]
    assert make(weights=[[1, 2, 3], [], [4]]).last(1).weights_N.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("combiner", "expected"),
    [("sum", [3, 4, 2]), ("mean", [3 / 7, 4 / 7, 1]), ("sqrtn", [3 / 5, 4 / 5, 1])],
)
def test_rows_are_scaled_by_their_weights_as_the_combiner_says(combiner, expected):
    lists = make([[1, 2], [3]], weights=[[3, 4], [2]])
    assert lists.scales_N(combiner)[:, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_weights_that_are_all_0_give_zeros(combiner):
    lists = make([[1, 2]], weights=[[0, 0]])
    assert lists.scales_N(combiner).tolist() == [[0], [0]]


def test_weights_must_be_one_per_id():
    with pytest.raises(DataError, match="weights of feed 'item': expected one number per id"):
        make(weights=[[1, 2], [], [3]])
