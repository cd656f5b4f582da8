"""Lists of ids as a user feeds them."""

import numpy as np
import pytest

from fleetrec.core.errors import DataError
from fleetrec.export.id_lists import keyed_ids

IDS = [[5, 6, 7], [], [8]]


def make(ids=IDS, weights=None):
    given = {} if weights is None else {"item": weights}
    return keyed_ids({"item": ids}, given, num_samples=len(ids))


def test_lists_are_put_back_to_back_feed_by_feed():
    found = keyed_ids({"item": IDS, "user": [[1], [2], [3]]}, {}, num_samples=3)
    assert found.names == ("item", "user")
    assert found.num_rows == 3
    assert found.ids.tolist() == [5, 6, 7, 8, 1, 2, 3]
    assert found.offsets.tolist() == [0, 3, 3, 4, 5, 6, 7]
    assert found.weights is None


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32])
def test_arrays_are_lists_of_equal_length(dtype):
    found = make(np.array([[1, 2], [3, 4]], dtype))
    assert found.ids.tolist() == [1, 2, 3, 4]
    assert found.offsets.tolist() == [0, 2, 4]


def test_ids_are_64_bits_however_they_are_written():
    assert make([[2**64 - 1, -1, 2**63]]).ids.tolist() == [-1, -1, -(2**63)]
    assert make(np.array([[2**64 - 1]], np.uint64)).ids.tolist() == [-1]


def test_ids_of_feeds_without_weights_have_weight_1():
    feeds = {"item": [[1, 2], []], "user": [[3], [4]]}
    found = keyed_ids(feeds, {"item": [[0.5, 2], []]}, num_samples=2)
    assert found.weights.tolist() == [0.5, 2, 1, 1]


def test_weights_must_be_one_per_id():
    with pytest.raises(DataError, match="weights of feed 'item': expected one number per id"):
        make(weights=[[1, 2], [], [3]])


def test_feeds_must_have_the_same_number_of_samples():
    with pytest.raises(DataError, match="feed 'item' has 3 samples, others 2"):
        keyed_ids({"item": IDS}, {}, num_samples=2)
