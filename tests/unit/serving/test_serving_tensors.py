"""Values of tensors, as JSON and as bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fleetrec.serving.request_error import RequestError
from fleetrec.serving.tensors import INPUT_TYPES, check_shape, from_bytes, from_json, to_ids

SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
TENSORS = st.one_of(
    *(
        arrays.arrays(
            kind,
            SHAPES,
            elements={"allow_nan": False, "allow_infinity": False} if name == "FP32" else None,
        ).map(lambda values, name=name: (name, values))
        for name, kind in INPUT_TYPES.items()
    )
)


@given(tensor=TENSORS, shift=st.integers(0, 7))
def test_bytes_are_read_back_wherever_they_begin(tensor, shift):
    datatype, values = tensor
    content = memoryview(bytes(shift) + values.tobytes())[shift:]
    found = from_bytes("x", content, datatype, values.shape)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


@given(tensor=TENSORS)
def test_json_is_read_flat_and_nested(tensor):
    datatype, values = tensor
    for data in (values.reshape(-1).tolist(), values.tolist()):
        if values.size or not any(isinstance(one, list) for one in data):
            found = from_json("x", data, datatype, values.shape)
            np.testing.assert_array_equal(found, values)


def test_ids_have_64_bits_whatever_their_sign():
    found = to_ids("x", [-1, 2**64 - 1, 2**63, 5])
    assert found.tolist() == [-1, -1, -(2**63), 5]


@pytest.mark.parametrize(
    ("datatype", "data", "shape", "message"),
    [
        ("INT64", [1, 2], (3,), "expected 3 numbers for shape [3], got 2"),
        ("INT64", [[1, 2], [3]], (2, 2), "expected lists of 2, got one of 1"),
        ("INT64", [[1], [2]], (1, 2), "expected nested data of shape [1, 2], got 2 lists"),
        ("INT64", [[1, 2], 3], (2, 2), "expected nested lists of equal depth, got 3"),
        ("INT64", [True], (1,), "expected integers of 64 bits, got True"),
        ("INT64", [1.0], (1,), "expected integers of 64 bits, got 1.0"),
        ("INT64", [2**64], (1,), "expected integers of 64 bits, got 18446744073709551616"),
        ("INT64", ["1"], (1,), "expected integers of 64 bits, got '1'"),
        ("INT64", None, (1,), "expected data as a list of numbers, got None"),
        ("FP32", ["a" * 999], (1,), "expected numbers, got 'aaaa"),
        ("FP32", [1e300], (1,), "expected finite float32 numbers, got inf"),
        ("FP32", [10**400], (1,), "expected float32 numbers, got a larger one"),
        ("FP32", [False], (1,), "expected numbers, got False"),
        ("INT64", [1], (2**40, 2**40), "expected 1208925819614629174706176 numbers"),
    ],
)
def test_wrong_data_is_named(datatype, data, shape, message):
    with pytest.raises(RequestError) as caught:
        from_json("input 'x'", data, datatype, shape)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bytes_that_are_not_finite_are_refused(value):
    content = np.array([1, value], np.float32).tobytes()
    with pytest.raises(RequestError, match="expected finite float32 numbers"):
        from_bytes("x", memoryview(content), "FP32", (2,))


def test_bytes_must_have_the_size_of_the_shape():
    with pytest.raises(RequestError, match=r"expected 16 bytes for INT64 \[2\], got 15"):
        from_bytes("x", memoryview(bytes(15)), "INT64", (2,))


@pytest.mark.parametrize("shape", [None, [], [-1], [1.0], [True], "2", [1] * 9, {"a": 1}])
def test_a_shape_is_a_list_of_sizes(shape):
    with pytest.raises(RequestError, match="expected a shape such as"):
        check_shape("x", shape)
