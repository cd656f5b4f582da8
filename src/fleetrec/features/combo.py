"""Values of several columns together."""

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fleetrec._native import hash_text
from fleetrec.features.buckets import to_integers
from fleetrec.features.column import Column, Texts
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.text import text_buffers
from fleetrec.features.values import IdLists, Ids, to_offsets

Words = npt.NDArray[np.uint64]
T = TypeVar("T")

# TensorFlow crosses columns by hashing fingerprints one after the other, from this seed on.
FIRST = 0xDECAFCAFFE
FACTOR = np.uint64(0xC6A4A7935BD1E995)
SHIFT = np.uint64(47)


class ComboFeature(DeclaredFeature, name="combo"):
    """One id for every combination of the values of a row, one of each column.

    With ``join_separator`` their texts are joined and hashed, else their fingerprints, in the order
    of the columns. The fingerprint of an integer column is the integer.
    """

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return the ids."""
        chosen = [columns[name] for name in self.options.columns]
        separators = self.options.column_separators or ("",) * len(chosen)
        texts = [
            column.texts(separator=separator or None)
            for column, separator in zip(chosen, separators, strict=True)
        ]
        if self.options.join_separator is not None:
            joined = self._joined(texts)
            return IdLists(ids=self._buckets.ids(joined, chosen[0]), offsets=joined.offsets)
        prints = [_fingerprints(t, c) for t, c in zip(texts, chosen, strict=True)]
        num_rows = len(chosen[0])
        crossed = np.full(num_rows, FIRST, np.uint64)
        offsets = np.arange(num_rows + 1)
        for print_, text in zip(prints, texts, strict=True):
            left, right, offsets = _pairs(offsets, text.offsets)
            crossed = _chained(crossed[left], print_[right])
        return IdLists(ids=self._buckets.of_hashes(crossed.view(np.int64)), offsets=offsets)

    def _joined(self, texts: list[Texts]) -> Texts:
        mark = pa.scalar((self.options.join_separator or "").encode(), pa.large_binary())

        def join(before: Texts, after: Texts) -> Texts:
            left, right, offsets = _pairs(before.offsets, after.offsets)
            values = pc.binary_join_element_wise(
                before.values.take(pa.array(left)), after.values.take(pa.array(right)), mark
            )
            return Texts(values=values, offsets=offsets)

        return _fold(join, texts)


def _fold(join: Callable[[T, T], T], items: list[T]) -> T:
    return functools.reduce(join, items)


def _fingerprints(texts: Texts, column: Column) -> Words:
    if column.options.type == "integer":
        return to_integers(texts, column, reason="of its input_type").view(np.uint64)
    return hash_text(*text_buffers(texts.values)).view(np.uint64)


def _pairs(left: Ids, right: Ids) -> tuple[Ids, Ids, Ids]:
    """Return all pairs of elements of equal rows, as indexes in both, and offsets of the pairs."""
    num_left, num_right = np.diff(left), np.diff(right)
    times = np.repeat(num_right, num_left)  # by element on the left
    places_left = np.repeat(np.arange(left[-1]), times)
    within = np.arange(len(places_left)) - np.repeat(to_offsets(times)[:-1], times)
    first_right = np.repeat(np.repeat(right[:-1], num_left), times)
    return places_left, first_right + within, to_offsets(num_left * num_right)


def _chained(before: Words, after: Words) -> Words:
    """Return fingerprints of pairs of fingerprints."""
    result = before ^ FACTOR
    result = (result ^ (_mixed(after * FACTOR) * FACTOR)) * FACTOR
    return _mixed(_mixed(result) * FACTOR)


def _mixed(words: Words) -> Words:
    return words ^ (words >> SHIFT)
