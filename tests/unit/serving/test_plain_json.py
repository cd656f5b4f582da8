"""Requests of /predict."""

import json

import numpy as np
import pytest

from fleetrec.serving.plain_json import decode_feeds, encode_outputs
from fleetrec.serving.request_error import RequestError
from making_served import SumPredictor, make_signature

COLUMNS = {"user": [[1], [2]], "item": [[3, 4], []], "price": [[0.5], [1]]}


def decode(content, **options):
    return decode_feeds(json.dumps(content).encode(), make_signature(**options))


def test_columns_and_instances_are_the_same():
    instances = [{"user": 1, "item": [3, 4], "price": 0.5}, {"user": 2, "item": [], "price": 1}]
    for content in (COLUMNS, {"instances": instances}):
        values = decode(content)
        assert values.num_rows == 2
        assert values.dense["price"].tolist() == [[0.5], [1.0]]
        assert values.ids["user"].ids.tolist() == [1, 2]
        assert values.ids["user"].offsets is None
        assert values.ids["item"].ids.tolist() == [3, 4]
        assert values.ids["item"].offsets.tolist() == [0, 2, 2]


def test_ids_may_have_weights():
    values = decode({**COLUMNS, "item.weights": [[0.5, 2], []]})
    assert values.ids["item"].weights.tolist() == [0.5, 2.0]


def test_dense_feeds_have_any_shape():
    predictor = SumPredictor(dense={"image": (2, 2), "bias": ()}, ids=())
    content = {"image": [[[1, 2], [3, 4]]], "bias": [5]}
    values = decode(content, predictor=predictor)
    assert values.dense["image"].tolist() == [[[1, 2], [3, 4]]]
    assert values.dense["bias"].tolist() == [5]
    with pytest.raises(RequestError, match=r"'image': expected numbers of the shape \[2, 2\]"):
        decode({**content, "image": [[1, 2, 3, 4]]}, predictor=predictor)


def test_a_feed_may_be_called_instances():
    predictor = SumPredictor(dense={}, ids=("instances",))
    values = decode({"instances": [[1], [2]]}, predictor=predictor)
    assert values.ids["instances"].ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "the request: expected a JSON object"),
        ({}, "input 'price': is missing"),
        ({**COLUMNS, "x": [1]}, "input 'x': the model has no such input"),
        ({**COLUMNS, "user": 3}, "input 'user': expected a list of samples, got 3"),
        ({**COLUMNS, "user": []}, "input 'user': expected 1 to 100 samples, got 0"),
        ({**COLUMNS, "user": [1] * 101}, "input 'user': expected 1 to 100 samples, got 101"),
        ({**COLUMNS, "user": [1]}, "input 'user': expected as many samples as 'price', 2, got 1"),
        ({**COLUMNS, "user": [[1], 2]}, "input 'user': expected one list per sample, got 2"),
        ({**COLUMNS, "user": [[1], [[2]]]}, "input 'user': expected integers of 64 bits, got [2]"),
        ({**COLUMNS, "user": [{}, {}]}, "input 'user': expected integers of 64 bits, got {}"),
        ({**COLUMNS, "price": [[1], [None]]}, "input 'price': expected numbers, got None"),
        ({**COLUMNS, "price": [[1], [1, 2]]}, "input 'price': expected numbers of the shape [1]"),
        ({**COLUMNS, "price": [[1], 2]}, "input 'price': expected numbers of the shape [1]"),
        ({**COLUMNS, "item.weights": [[1], []]}, "expected one number per id of 'item'"),
        ({**COLUMNS, "item.lengths": [2, 0]}, "input 'item.lengths': is for"),
        ({"instances": {}}, "instances: expected a list of objects, got {}"),
        ({"instances": [3]}, "instances[0]: expected an object, got 3"),
        ({"instances": [{"user": 1}, {}]}, "instances[1]: expected the inputs of instances[0]"),
        ({"instances": [{}], "more": 1}, "expected 'instances' alone, got also ['more']"),
    ],
)
def test_what_is_wrong_is_named(content, message):
    with pytest.raises(RequestError) as caught:
        decode(content)
    assert message in str(caught.value)


def test_outputs_are_by_name_with_the_version():
    content = encode_outputs({"predict": np.array([0.5, 0.25], np.float32)}, "7")
    assert json.loads(content) == {"predict": [0.5, 0.25], "version": "7"}
