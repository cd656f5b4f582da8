"""Hashes of text are part of the data format: ids in checkpoints depend on them."""

import hashlib
import itertools

import numpy as np
import pytest

from fleetrec._native import fingerprint64, hash_text

# The expected values come from FarmHash's own implementation (PyPI: pyfarmhash 0.4.0).
TEXT = bytes((i * i * 7 + i * 31 + 11) % 256 for i in range(1000))
BY_LENGTH = {
    0: 0x9AE16A3B2F90404F,
    1: 0x4271B80E2915C76A,
    3: 0x37304478B6ED9412,
    4: 0x5ED02D10909FC4E8,
    7: 0x044614E312AECF68,
    8: 0x702E3E7C3A47506C,
    16: 0xB1A12F68107FD94A,
    17: 0x0028F545642B3965,
    32: 0xE9B245942413C72C,
    33: 0x46668BF163ED1B50,
    64: 0x600EDA570B2953E5,
    65: 0x9FAAC8709E6E6825,
    128: 0x98F507E6D16DF790,
    129: 0xD591BD930F124582,
    1000: 0x04B1CF5FFAB3AC8E,
}
SHA256_OF_ALL = "2698be19f3b9872a7c67ee98b98e70010a28369c954895a1a240226d78038b28"


@pytest.mark.parametrize("length", BY_LENGTH)
def test_a_text_of_each_kind_of_length_has_its_hash(length):
    assert fingerprint64(TEXT[:length]) == BY_LENGTH[length]


def test_texts_of_all_lengths_up_to_1000_have_their_hashes():
    hashes = [fingerprint64(TEXT[:length]).to_bytes(8, "little") for length in range(1001)]
    assert hashlib.sha256(b"".join(hashes)).hexdigest() == SHA256_OF_ALL


def test_buckets_are_those_of_tensorflow():
    """The example of the documentation of tf.strings.to_hash_bucket_fast."""
    assert [fingerprint64(text) % 3 for text in ("Hello", "TensorFlow", "2.x")] == [0, 2, 2]


def test_text_is_hashed_as_utf8():
    assert fingerprint64("推荐") == 15061999632567654924 == fingerprint64("推荐".encode())


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_column_is_hashed_cell_by_cell(dtype):
    offsets = np.array([3, 3, 10, 200, 1000], dtype)
    hashes = hash_text(offsets, np.frombuffer(TEXT, np.uint8))
    expected = [fingerprint64(TEXT[a:b]) for a, b in itertools.pairwise(offsets)]
    assert hashes.view(np.uint64).tolist() == expected
