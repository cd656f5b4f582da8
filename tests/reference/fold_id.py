"""Ids hashed into a fixed range, with Python's integers."""

_MASK = 2**64 - 1


def fold_id(i: int, num_rows: int) -> int:
    """Return the row of an id in a table that hashes ids beyond its rows."""
    unsigned = i & _MASK
    if unsigned < num_rows:
        return unsigned
    x = (unsigned + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return (x ^ (x >> 31)) % num_rows
