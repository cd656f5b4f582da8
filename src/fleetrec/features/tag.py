"""Several values of a column, maybe with weights."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetrec.features.column import Column, Texts
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.text_numbers import to_floats
from fleetrec.features.values import Floats, IdLists

WEIGHT = "expected a finite number as a weight"


class TagFeature(DeclaredFeature, name="tag"):
    """The ids of all values of a cell.

    Weights follow ids in the same cell (``a:0.3|b:0.2``), or are in a separate column.
    """

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return ids and weights."""
        options = self.options
        column = columns[options.columns[0]]
        texts = column.texts(separator=options.separator, precision=options.precision)
        weights: Floats | None = None
        if len(options.columns) > 1:
            beside = columns[options.columns[1]]
            weights = self._weights_beside(texts, beside)
        elif options.weight_separator:
            texts, weights = self._cut_weights(texts, column)
        if options.max_length is not None:
            shorter = texts.first(options.max_length)
            if weights is not None:
                place = np.arange(len(weights)) - np.repeat(texts.offsets[:-1], texts.lengths())
                weights = weights[place < options.max_length]
            texts = shorter
        ids = self._buckets.ids(texts, column)
        return IdLists(ids=ids, offsets=texts.offsets, weights=weights)

    def _weights_beside(self, texts: Texts, column: Column) -> Floats:
        found = column.texts(separator=self.options.separator)
        wrong = np.flatnonzero(found.lengths() != texts.lengths())
        if len(wrong):
            row = int(wrong[0])
            raise column.bad(
                row,
                b"|".join(found.values.to_pylist()[found.offsets[row] : found.offsets[row + 1]]),
                f"expected {texts.lengths()[row]} weights, one for each value of "
                f"{self.options.columns[0]!r}, got {found.lengths()[row]}",
            )
        return to_floats(found, column, reason=WEIGHT)

    def _cut_weights(self, texts: Texts, column: Column) -> tuple[Texts, Floats]:
        """Split ids from weights at the last separator; without one the weight is 1."""
        assert self.options.weight_separator is not None
        mark = self.options.weight_separator.encode()
        split = pc.split_pattern(texts.values, mark, max_splits=1, reverse=True)
        has_weight = np.asarray(pc.list_value_length(split)) > 1
        ids = pc.list_element(split, 0).cast(pa.large_binary())
        ones = pa.array([b"1"] * len(split), pa.large_binary())
        padded = [pair[1] if len(pair) > 1 else b"1" for pair in split.to_pylist()]
        weights = pa.array(padded, pa.large_binary()) if has_weight.any() else ones
        cut = Texts(values=ids, offsets=texts.offsets)
        return cut, to_floats(Texts(values=weights, offsets=texts.offsets), column, reason=WEIGHT)
