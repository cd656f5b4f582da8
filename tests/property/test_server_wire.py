"""Messages between workers and servers, and bytes that are none."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from fleetrec.server.wire import Kind, Message, WireError, decode, encode

DTYPES = [np.uint8, np.uint32, np.uint64, np.int64, np.float32]
SHAPES = hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=5)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))
MESSAGES = st.builds(
    Message,
    kind=st.sampled_from(list(Kind)),
    worker=st.integers(0, 2**32 - 1),
    incarnation=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**64 - 1),
    arrays=st.lists(ARRAYS, max_size=4),
)


@given(MESSAGES)
def test_a_message_comes_out_as_it_went_in(message):
    found = decode(encode(message))
    for name in ("kind", "worker", "incarnation", "sequence"):
        assert getattr(found, name) == getattr(message, name)
    assert len(found.arrays) == len(message.arrays)
    for ours, theirs in zip(message.arrays, found.arrays, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.tobytes() == theirs.tobytes()


@given(MESSAGES, st.data())
def test_a_message_that_was_cut_is_refused(message, data):
    content = encode(message)
    with pytest.raises(WireError):
        decode(content[: data.draw(st.integers(0, len(content) - 1))])


def test_an_empty_array_of_absurd_length_is_refused():
    message = Message(kind=Kind.OK, arrays=[np.zeros((0, 0), np.uint32)])
    content = bytearray(encode(message))
    content[-1] = 0x7F  # the highest byte of its number of rows
    with pytest.raises(WireError, match="at most 1099511627776 each way"):
        decode(bytes(content))


@given(MESSAGES, st.data())
def test_damage_gives_a_message_or_an_error(message, data):
    content = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(bytes(content))
    except WireError:
        return
    assert sum(array.nbytes for array in found.arrays) <= len(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(content):
    with pytest.raises(WireError):
        decode(content)
