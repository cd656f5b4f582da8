"""The codec of the Open Inference Protocol."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetrec.serving.inference_protocol import decode_request, encode_response
from fleetrec.serving.request_error import RequestError
from making_served import make_signature

SIGNATURE = make_signature()
INPUTS = [
    {"name": "price", "datatype": "FP32", "shape": [2, 1], "data": [0.5, 1]},
    {"name": "user", "datatype": "INT64", "shape": [2, 1], "data": [[1], [2]]},
    {"name": "item", "datatype": "UINT64", "shape": [2, 2], "data": [3, 4, 5, 2**64 - 1]},
]


def encode(content):
    return json.dumps(content).encode()


def decode(content, header=None):
    return decode_request(
        content if isinstance(content, bytes) else encode(content), header, SIGNATURE
    )


def as_binary(tensors):
    """Return a request with some tensors as bytes: the body, and the length of its header."""
    described, blobs = [], []
    for name, datatype, values, is_binary in tensors:
        entry = {"name": name, "datatype": datatype, "shape": list(values.shape)}
        if is_binary:
            blobs.append(values.tobytes())
            entry["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            entry["data"] = values.reshape(-1).tolist()
        described.append(entry)
    text = encode({"inputs": described})
    return text + b"".join(blobs), str(len(text))


def test_json_tensors_are_decoded():
    request = decode({"id": "a", "inputs": INPUTS, "outputs": [{"name": "predict"}]})
    assert request.id == "a"
    assert request.tensors["price"].tolist() == [[0.5], [1.0]]
    assert request.tensors["item"].tolist() == [[3, 4], [5, 2**64 - 1]]
    assert request.is_binary == {"predict": False}
    assert request.timeout_s is None


@given(
    prices=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=5),
    users=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    items=st.lists(st.integers(0, 2**64 - 1), max_size=5),
    is_binary=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    order=st.permutations(range(3)),
)
def test_binary_and_json_tensors_may_be_mixed_in_any_order(prices, users, items, is_binary, order):
    tensors = [
        ("price", "FP32", np.array(prices, np.float32)),
        ("user", "INT64", np.array(users, np.int64)),
        ("item", "UINT64", np.array(items, np.uint64)),
    ]
    body, header = as_binary([(*tensors[i], is_binary[i]) for i in order])
    found = decode(body, header).tensors
    for name, _, values in tensors:
        np.testing.assert_array_equal(found[name], values)


@given(body=st.binary(max_size=200), header=st.none() | st.integers(0, 300).map(str))
def test_arbitrary_bytes_are_refused_and_nothing_else(body, header):
    with pytest.raises(RequestError):
        decode(body, header)


WHOLE, HEADER = as_binary(
    [
        ("price", "FP32", np.ones((2, 1), np.float32), True),
        ("user", "INT64", np.ones((2, 1), np.int64), True),
    ]
)


@given(
    place=st.integers(0, len(WHOLE) - 1),
    value=st.integers(0, 255),
    end=st.integers(0, len(WHOLE)),
)
def test_a_damaged_request_is_decoded_or_refused(place, value, end):
    damaged = bytearray(WHOLE)
    damaged[place] = value
    for body in (bytes(damaged), WHOLE[:end]):
        try:
            decode(body, HEADER)
        except RequestError as error:
            assert error.status == 400


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the request is not JSON"),
        (b"\xff", "the request is not JSON"),
        (b'{"inputs": [NaN]}', "the request is not JSON"),
        (b"[" * 100_000, "the request is not JSON"),
        ([], "the request: expected a JSON object, got []"),
        ({}, "inputs: expected a list of tensors, got None"),
        ({"inputs": [3]}, "inputs: expected tensors with a name, got 3"),
        ({"inputs": [{"name": 3}]}, "inputs: expected tensors with a name"),
        ({"inputs": [{"name": "x"}]}, "input 'x': the model has no such input; expected"),
        ({"inputs": [INPUTS[0], INPUTS[0]]}, "input 'price': is given twice"),
        ({"inputs": [{**INPUTS[0], "datatype": "FP64"}]}, "expected the datatype FP32, got 'FP64'"),
        ({"inputs": [{**INPUTS[1], "datatype": []}]}, "expected the datatype INT64 or UINT64"),
        ({"inputs": [{**INPUTS[0], "shape": None}]}, "input 'price': expected a shape"),
        ({"inputs": [{**INPUTS[0], "more": 1}]}, "input 'price': 'more' is not supported"),
        (
            {"inputs": [{**INPUTS[0], "parameters": {"shared_memory_region": "x"}}]},
            "input 'price': parameters: 'shared_memory_region' is not supported",
        ),
        (
            {"inputs": [{**INPUTS[0], "parameters": {"binary_data_size": 8}}]},
            "input 'price': expected data or binary_data_size, got both",
        ),
        ({"inputs": INPUTS, "id": 3}, "id: expected text, got 3"),
        ({"inputs": INPUTS, "outputs": {}}, "outputs: expected a list, got {}"),
        ({"inputs": INPUTS, "outputs": ["predict"]}, "outputs: expected objects with a name"),
        (
            {"inputs": INPUTS, "outputs": [{"name": "p", "parameters": {"classification": 2}}]},
            "output 'p': parameters: 'classification' is not supported",
        ),
        ({"inputs": INPUTS, "parameters": []}, "parameters: expected parameters as an object"),
        ({"inputs": INPUTS, "parameters": {"priority": 1}}, "'priority' is not supported"),
        ({"inputs": INPUTS, "parameters": {"timeout": 0}}, "timeout: expected microseconds"),
        ({"inputs": INPUTS, "parameters": {"binary_data_output": 1}}, "expected true or false"),
    ],
)
def test_what_is_wrong_is_named(content, message):
    with pytest.raises(RequestError) as caught:
        decode(content)
    assert message in str(caught.value)


@pytest.mark.parametrize("header", ["-1", "x", "9" * 30, str(len(WHOLE) + 1), "٣"])
def test_a_wrong_header_length_is_refused(header):
    with pytest.raises(RequestError, match="Inference-Header-Content-Length: expected a number"):
        decode(WHOLE, header)


def test_bytes_that_no_input_names_are_refused():
    with pytest.raises(RequestError, match="the request has 3 bytes more than its inputs name"):
        decode(WHOLE + b"abc", HEADER)


def test_a_response_has_json_and_binary_outputs():
    request = decode(
        {
            "id": "a",
            "inputs": INPUTS,
            "outputs": [
                {"name": "logit", "parameters": {"binary_data": True}},
                {"name": "predict"},
            ],
        }
    )
    outputs = {name: np.array([[1], [2]], np.float32)[:, 0] for name in ("logit", "predict")}
    parts, num_json = encode_response(
        request, outputs, model="m", version="3", fingerprint="f" * 16
    )
    assert num_json == len(parts[0])
    assert parts[1] == np.array([1, 2], np.float32).tobytes()
    assert json.loads(parts[0]) == {
        "model_name": "m",
        "model_version": "3",
        "parameters": {"fingerprint": "f" * 16},
        "id": "a",
        "outputs": [
            {
                "name": "logit",
                "datatype": "FP32",
                "shape": [2],
                "parameters": {"binary_data_size": 8},
            },
            {"name": "predict", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]},
        ],
    }


def test_all_outputs_are_binary_if_the_request_says_so():
    request = decode({"inputs": INPUTS, "parameters": {"binary_data_output": True, "timeout": 500}})
    assert request.timeout_s == 500e-6
    outputs = {"predict": np.zeros(2, np.float32)}
    parts, num_json = encode_response(request, outputs, model="m", version="3", fingerprint="")
    assert num_json == len(parts[0])
    assert parts[1] == bytes(8)
