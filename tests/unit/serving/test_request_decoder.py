"""Requests of the same form are decoded faster, and to the same feeds."""

import dataclasses
import json

import numpy as np
import pytest

from fleetrec.serving import request_decoder
from fleetrec.serving.inference_protocol import decode_request
from fleetrec.serving.request_decoder import RequestDecoder
from fleetrec.serving.request_error import RequestError
from making_served import make_signature

SIGNATURE = make_signature()


def make_request(seed, *, num_samples=3, num_ids=2, more=(), **keys):
    rng = np.random.default_rng(seed)
    tensors = {
        "price": ("FP32", rng.normal(size=(num_samples, 1)).astype(np.float32)),
        "user": ("INT64", rng.integers(-9, 9, (num_samples, 1))),
        "item": ("UINT64", rng.integers(0, 2**64, (num_samples, num_ids), np.uint64)),
        **dict(more),
    }
    inputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": values.shape,
            "parameters": {"binary_data_size": values.nbytes},
        }
        for name, (datatype, values) in tensors.items()
    ]
    header = json.dumps({"inputs": inputs, **keys}).encode()
    return header + b"".join(x.tobytes() for _, x in tensors.values()), str(len(header))


def check(decoder, body, header):
    """Compare with what the protocol and the signature make of a request."""
    request, values = decoder.decode(body, header)
    expected = decode_request(body, header, SIGNATURE)
    assert request == dataclasses.replace(expected, tensors={})
    feeds = SIGNATURE.to_values(expected.tensors)
    assert values.num_rows == feeds.num_rows
    for name, array in feeds.dense.items():
        np.testing.assert_array_equal(values.dense[name], array)
    found, wanted = values.keyed_ids(), feeds.keyed_ids()
    assert found.names == wanted.names
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.offsets, wanted.offsets)
    if wanted.weights is not None:
        np.testing.assert_array_equal(found.weights, wanted.weights)


def test_requests_of_one_form_have_their_own_values():
    decoder = RequestDecoder(SIGNATURE)
    for seed in range(4):
        check(decoder, *make_request(seed, id="a", parameters={"timeout": 5000}))
        check(decoder, *make_request(seed, num_samples=2, outputs=[{"name": "logit"}]))


def test_lengths_and_weights_are_read_from_every_request():
    decoder = RequestDecoder(SIGNATURE)
    for seed, lengths in enumerate(([1, 2, 0], [0, 0, 3])):
        more = {
            "item": ("INT64", np.arange(3) + seed),
            "item.lengths": ("INT64", np.array(lengths)),
            "item.weights": ("FP32", np.full(3, seed + 0.5, np.float32)),
        }
        check(decoder, *make_request(seed, more=more.items()))


def test_what_is_wrong_is_refused_after_a_good_request_with_the_same_header():
    decoder = RequestDecoder(SIGNATURE)
    body, header = make_request(0)
    decoder.decode(body, header)
    begin = int(header)
    bad = body[:begin] + np.float32(np.nan).tobytes() + body[begin + 4 :]
    for wrong, message in (
        (bad, "input 'price': expected finite float32 numbers, got nan"),
        (body + b"x", "1 bytes more than its inputs name"),
        (body[:-1], "binary_data_size: expected a number up to the"),
    ):
        with pytest.raises(RequestError, match=message):
            decoder.decode(wrong, header)
    for length in ("-1", "1e3", "9" * 30, str(len(body) + 1)):
        with pytest.raises(RequestError, match="Inference-Header-Content-Length"):
            decoder.decode(body, length)
    check(decoder, body, header)


def test_a_request_of_json_is_decoded_every_time():
    decoder = RequestDecoder(SIGNATURE)
    for price in (0.5, 1.5):
        inputs = [
            {"name": "price", "datatype": "FP32", "shape": [1, 1], "data": [price]},
            {"name": "user", "datatype": "INT64", "shape": [1, 1], "data": [1]},
            {"name": "item", "datatype": "INT64", "shape": [1, 1], "data": [2]},
        ]
        body = json.dumps({"inputs": inputs}).encode()
        check(decoder, body, None)
        check(decoder, body, str(len(body)))


def test_many_forms_are_decoded_one_after_the_other(monkeypatch):
    monkeypatch.setattr(request_decoder, "MAX_FORMS", 2)
    decoder = RequestDecoder(SIGNATURE)
    for number in [*range(1, 6), *range(1, 6)]:
        check(decoder, *make_request(number, num_samples=number, num_ids=number % 2))
