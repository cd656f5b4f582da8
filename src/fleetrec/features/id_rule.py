"""Rules of id lists: from a value to its id, the same way in every format.

An integer is its own id. Text that reads as a 64-bit integer is that integer; other text is its
fingerprint. A rule (a vocabulary, or a number of buckets) is applied to that.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fleetrec._native import parse_id_cells
from fleetrec.config.features import IdRule
from fleetrec.core.errors import DataError
from fleetrec.features.text import text_buffers
from fleetrec.features.values import Ids
from fleetrec.features.vocabulary import read_vocabulary


class IdMap:
    """The id rule of one feature; an empty rule changes nothing."""

    def __init__(self, rule: IdRule, *, where: str) -> None:
        self._buckets = rule.buckets
        self._known: Ids | None = None  # of the vocabulary, sorted
        self._places: Ids | None = None
        values, source = _vocabulary(rule, where=where)
        if not values:
            return
        if rule.buckets is not None:
            raise DataError(f"{where}: expected a vocabulary or buckets, got both; remove one")
        ids = text_ids(pa.array(values, pa.large_string()))
        order = np.argsort(ids, kind="stable")
        self._known = ids[order]
        self._places = order + 1
        twice = np.flatnonzero(self._known[1:] == self._known[:-1])
        if len(twice):
            first, second = self._places[twice[0] : twice[0] + 2]
            raise DataError(
                f"{source}: values {first} and {second} are the same, "
                f"{values[second - 1][:80]!r}; every value has one place"
            )

    def __call__(self, ids: Ids) -> Ids:
        """Return the ids that are looked up in tables."""
        if self._known is not None and self._places is not None:
            at = np.minimum(np.searchsorted(self._known, ids), len(self._known) - 1)
            return np.where(self._known[at] == ids, self._places[at], 0)
        if self._buckets is not None:
            return (ids.view(np.uint64) % np.uint64(self._buckets)).view(np.int64)
        return ids


def text_ids(column: pa.Array) -> Ids:
    """Return the ids of the cells of a text column that are not empty."""
    ids, _, _ = parse_id_cells(
        *text_buffers(column), list_separator=None, weight_separator=None, prefix=None
    )
    return ids


def _vocabulary(rule: IdRule, *, where: str) -> tuple[Sequence[str], str]:
    """Return the values and their positions."""
    if rule.vocabulary_path is None:
        values: Sequence[str] = rule.vocabulary
        source = where
    elif rule.vocabulary:
        raise DataError(f"{where}: expected a vocabulary or the path of one, got both; remove one")
    else:
        values, source = read_vocabulary(rule.vocabulary_path), rule.vocabulary_path
    if "" in values:
        raise DataError(f"{source}: value {values.index('') + 1} is empty; remove it")
    return values, source
