"""Hashes of numbers."""

import numpy as np

from fleetrec.data.scatter import scatter

# The first three numbers of SplitMix64 from the seed 0.
STATES = np.array([0, 0x9E3779B97F4A7C15, 0x3C6EF372FE94F82A], np.uint64)
OUTPUTS = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_hashes_are_the_numbers_of_split_mix_64():
    with np.errstate(over="ignore"):
        assert [int(value) for value in scatter(STATES)] == OUTPUTS


def test_different_numbers_have_different_hashes_in_all_bits():
    hashes = scatter(np.arange(4096, dtype=np.uint64))
    assert len(np.unique(hashes)) == 4096
    ones = (hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert (abs(ones.mean(axis=0) - 0.5) < 0.05).all()


def test_the_argument_is_not_changed():
    values = np.arange(3, dtype=np.uint64)
    scatter(values)
    assert values.tolist() == [0, 1, 2]
