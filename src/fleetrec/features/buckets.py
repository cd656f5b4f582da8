"""From the text of a value to its id."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetrec._native import hash_text
from fleetrec.config.features import BucketOptions
from fleetrec.core.errors import DataError
from fleetrec.features.column import BadValueError, Column, Texts
from fleetrec.features.text import text_buffers
from fleetrec.features.values import Ids
from fleetrec.features.vocabulary import read_vocabulary


class Buckets:
    """A rule that maps values to ids."""

    def __init__(self, options: BucketOptions, *, feature: str) -> None:
        self._options = options
        self._vocabulary: pa.Array | None = None
        words = options.vocabulary
        if options.vocabulary_path is not None:
            words = read_vocabulary(options.vocabulary_path)
        if words:
            self._vocabulary = pa.array([word.encode() for word in words], pa.large_binary())
            if len(set(words)) < len(words):
                raise DataError(f"feature {feature}: a word is in the vocabulary twice")

    def ids(self, texts: Texts, column: Column) -> Ids:
        """Return the id of every value."""
        if self._vocabulary is not None:
            places = pc.fill_null(pc.index_in(texts.values, value_set=self._vocabulary), 0)
            return np.asarray(places.to_numpy(zero_copy_only=False)).astype(np.int64)
        if self._options.num_buckets is not None:
            numbers = to_integers(texts, column, reason="of num_buckets")
            if self._options.wraps:
                return np.mod(numbers, self._options.num_buckets)
            inside = (numbers >= 0) & (numbers < self._options.num_buckets)
            return np.where(inside, numbers, 0)
        return self.of_hashes(hash_text(*text_buffers(texts.values)))

    def of_hashes(self, hashes: Ids) -> Ids:
        """Return the ids of hashed values."""
        if self._options.hash_buckets is None:
            return hashes
        return (hashes.view(np.uint64) % np.uint64(self._options.hash_buckets)).view(np.int64)


def to_integers(texts: Texts, column: Column, *, reason: str) -> Ids:
    """Return texts as integers; ``reason`` says in the message why they must be."""
    try:
        found = texts.values.cast(pa.large_string()).cast(pa.int64())
    except pa.ArrowInvalid:
        raise _first_bad(texts, column, reason) from None
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _first_bad(texts: Texts, column: Column, reason: str) -> BadValueError:
    for place, value in enumerate(texts.values.to_pylist()):
        if not re.fullmatch(rb"-?\d{1,18}", value):
            text = f"expected a whole number of at most 18 digits, because {reason}"
            return column.bad(texts.row_of(place), value, text)
    raise AssertionError("all values are whole numbers")
