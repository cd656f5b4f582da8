"""Numbers that are given as text."""

import numpy as np
import pyarrow as pa

from fleetrec.features.column import Column, Texts
from fleetrec.features.values import Floats


def to_floats(texts: Texts, column: Column, *, reason: str) -> Floats:
    """Return texts as numbers; ``reason`` is the message about one that is no finite number."""
    try:
        found = texts.values.cast(pa.large_string()).cast(pa.float64())
        numbers = np.asarray(found.to_numpy(zero_copy_only=False))
        bad = np.flatnonzero(~np.isfinite(numbers))
    except pa.ArrowInvalid:
        bad = np.array([_first_that_is_no_number(texts)])
    if len(bad):
        place = int(bad[0])
        text = texts.values[place].as_py()
        raise column.bad(texts.row_of(place), text, reason)
    return numbers.astype(np.float32)


def _first_that_is_no_number(texts: Texts) -> int:
    for place, value in enumerate(texts.values.to_pylist()):
        try:
            float(value)
        except ValueError:
            return place
    return 0
