"""Blocks cover everything once, and differ by one at most."""

import pytest

from fleetrec.core.partition import contiguous_block


@pytest.mark.parametrize("count", [0, 1, 5, 12])
@pytest.mark.parametrize("num_blocks", [1, 2, 5, 7])
def test_blocks_are_contiguous_and_the_first_ones_larger(count, num_blocks):
    blocks = [contiguous_block(count, index, num_blocks) for index in range(num_blocks)]
    assert [place for one in blocks for place in one] == list(range(count))
    sizes = [len(one) for one in blocks]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
