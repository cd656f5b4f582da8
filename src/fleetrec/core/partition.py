"""Divide a sequence among several processes."""


def contiguous_block(count: int, index: int, num_blocks: int) -> range:
    """Return the positions of one of several contiguous blocks; the first ones have one more."""
    size, more = divmod(count, num_blocks)
    first = index * size + min(index, more)
    return range(first, first + size + (index < more))
