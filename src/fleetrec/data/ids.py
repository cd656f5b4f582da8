"""From values to ids, the same way in every format.

An integer is its own id. Text that reads as an integer of 64 bits is that integer; other text is
its fingerprint. What a rule says (a vocabulary, or a number of buckets) comes after that.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fleetrec._native import parse_id_cells
from fleetrec.config.job import DatasetOptions, IdRule
from fleetrec.core.errors import DataError
from fleetrec.data.files import read_lines
from fleetrec.features.text import text_buffers

Ids = npt.NDArray[np.int64]


class IdMap:
    """The rule of one feature, ready for use; without a rule ids stay as they are."""

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
        """Return the ids that tables see."""
        if self._known is not None and self._places is not None:
            at = np.minimum(np.searchsorted(self._known, ids), len(self._known) - 1)
            return np.where(self._known[at] == ids, self._places[at], 0)
        if self._buckets is not None:
            return (ids.view(np.uint64) % np.uint64(self._buckets)).view(np.int64)
        return ids


def build_id_maps(options: DatasetOptions) -> Mapping[str, IdMap]:
    """Return the map of every sparse feature."""
    for name in options.id_rules:
        if name not in options.sparse:
            raise DataError(
                f"data set {options.name}: a rule for ids of {name!r}, which is no sparse feature; "
                f"known: {', '.join(options.sparse)}"
            )
    return {
        name: IdMap(
            options.id_rules.get(name, IdRule()), where=f"data set {options.name}: feature {name!r}"
        )
        for name in options.sparse
    }


def text_ids(column: pa.Array) -> Ids:
    """Return the ids of the cells of a text column that are not empty."""
    ids, _, _ = parse_id_cells(
        *text_buffers(column), list_separator=None, weight_separator=None, prefix=None
    )
    return ids


def _vocabulary(rule: IdRule, *, where: str) -> tuple[Sequence[str], str]:
    """Return the values and where they stand."""
    if rule.vocabulary_path is None:
        values: Sequence[str] = rule.vocabulary
        source = where
    elif rule.vocabulary:
        raise DataError(f"{where}: expected a vocabulary or the path of one, got both; remove one")
    else:
        values, source = read_lines(rule.vocabulary_path), rule.vocabulary_path
        if not values:
            raise DataError(f"{source}: the vocabulary of {where} is empty")
    if "" in values:
        raise DataError(f"{source}: value {values.index('') + 1} is empty; remove it")
    return values, source
