"""Tensors become feeds, or the message names the input that is wrong."""

import numpy as np
import pytest

from fleetrec.serving.request_error import RequestError
from making_served import SumPredictor, make_signature

GOOD = {
    "price": np.ones((2, 1), np.float32),
    "user": np.array([[1], [2]]),
    "item": np.array([[1, 2], [3, 4]]),
}


def test_lists_of_equal_length_need_no_lengths():
    values = make_signature().to_values(GOOD)
    assert values.num_rows == 2
    assert values.ids["user"].offsets is None
    assert values.ids["item"].offsets.tolist() == [0, 2, 4]


def test_ragged_lists_have_lengths_and_may_have_weights():
    item = np.array([7, 8, 2**64 - 1], np.uint64)
    ragged = {
        "item": item,
        "item.lengths": np.array([0, 3]),
        "item.weights": np.array([1, 2, 3], np.float32),
    }
    lists = make_signature().to_values({**GOOD, **ragged}).ids["item"]
    assert lists.ids.tolist() == [7, 8, -1]
    assert lists.offsets.tolist() == [0, 0, 3]
    assert lists.weights.tolist() == [1, 2, 3]


def test_metadata_lists_what_a_request_may_have():
    metadata = make_signature().metadata()
    assert {one["name"]: (one["datatype"], one["shape"]) for one in metadata["inputs"]} == {
        "price": ("FP32", [-1, 1]),
        "user": ("INT64", [-1, -1]),
        "item": ("INT64", [-1, -1]),
        "user.lengths": ("INT64", [-1]),
        "user.weights": ("FP32", [-1]),
        "item.lengths": ("INT64", [-1]),
        "item.weights": ("FP32", [-1]),
    }
    optional = [one["name"] for one in metadata["inputs"] if "parameters" in one]
    assert optional == ["user.lengths", "user.weights", "item.lengths", "item.weights"]
    assert metadata["outputs"][0] == {"name": "logit", "datatype": "FP32", "shape": [-1]}


def test_a_feed_may_have_the_name_of_the_lengths_of_another():
    signature = make_signature(SumPredictor(ids=("user", "user.lengths")))
    feeds = {"price": GOOD["price"], "user": GOOD["user"], "user.lengths": GOOD["item"]}
    values = signature.to_values(feeds)
    assert values.ids["user"].offsets is None
    assert values.ids["user.lengths"].ids.tolist() == [1, 2, 3, 4]


LENGTHS = "expected lengths from 0 on whose sum is that of the ids, 3"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"other": GOOD["user"]}, "input 'other': the model has no such input; expected"),
        ({"user": None}, "input 'user': is missing; expected ['price', 'user', 'item']"),
        ({"price": np.ones((2, 3))}, "input 'price': expected the shape [-1, 1], got [2, 3]"),
        ({"price": np.ones(2)}, "input 'price': expected the shape [-1, 1], got [2]"),
        ({"user": np.arange(2)}, "input 'user': expected the shape [samples, ids], or [ids] with"),
        ({"user": np.ones((3, 1), int)}, "input 'user': expected as many samples as 'price', 2"),
        ({"user": np.ones((0, 1), int)}, "input 'user': expected 1 to 100 samples, got 0"),
        ({"user": np.ones((2**40, 0), int)}, "input 'user': expected 1 to 100 samples, got"),
        ({"user.lengths": np.array([1, 1])}, "expected the shapes [ids] and [samples]"),
        ({"item": np.arange(3), "item.lengths": np.array([1, 1])}, LENGTHS),
        ({"item": np.arange(3), "item.lengths": np.array([-1, 4])}, LENGTHS),
        ({"item": np.arange(3), "item.lengths": np.array([2**62] * 8 + [3])}, LENGTHS),
        (
            {"user.weights": np.ones(2)},
            "input 'user.weights': expected the shape of 'user', [2, 1]",
        ),
    ],
)
def test_what_is_wrong_is_named(change, message):
    tensors = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(RequestError) as caught:
        make_signature().to_values(tensors)
    assert message in str(caught.value)
    assert caught.value.status == 400


def test_outputs_are_chosen_by_name():
    signature = make_signature()
    assert signature.check_fetches([]) == ("logit", "predict")
    assert signature.check_fetches(["predict", "predict"]) == ("predict",)
    with pytest.raises(RequestError, match="output 'other': the model has no such output"):
        signature.check_fetches(["other"])


def test_lists_that_would_be_padded_to_much_memory_are_refused():
    signature = make_signature(SumPredictor(sequences=[("item", None)]))
    with pytest.raises(RequestError, match="'item': expected lists of at most 50 ids, got 51"):
        signature.to_values({**GOOD, "item": np.ones((2, 51), int)})
    cut = make_signature(SumPredictor(sequences=[("item", 3)]))
    cut.to_values({**GOOD, "item": np.ones((2, 51), int)})
    wide = make_signature(
        SumPredictor(dense={}, ids=("item",), sequences=[("item", None)]),
        max_samples=10**6,
        max_list=10**6,
    )
    lengths = np.zeros(2**16, int)
    lengths[0] = 100
    with pytest.raises(RequestError, match="samples x longest list of at most 4194304"):
        wide.to_values({"item": np.ones(100, int), "item.lengths": lengths})
