"""Numbers: as they are, in buckets, or as the weights of learned vectors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.config.features import FeatureOptions
from fleetrec.core.expression import Expression
from fleetrec.features.column import Column
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.values import IdLists, Numbers


class RawFeature(DeclaredFeature, name="raw"):
    """The numbers of a cell, scaled to [0, 1] if the feature has a minimum and a maximum."""

    def __init__(self, options: FeatureOptions) -> None:
        super().__init__(options)
        self._normalizer = Expression(options.expression) if options.expression else None

    def transform(self, columns: Mapping[str, Column]) -> IdLists | Numbers:
        """Return numbers, or one id for each of the ``width`` numbers of a row."""
        options, buckets = self.options, self.options.buckets
        column = columns[options.columns[0]]
        values, num_present = column.numbers(width=options.width, separator=options.separator)
        if options.maximum > options.minimum:
            spread = np.float32(options.maximum - options.minimum)
            values = (values - np.float32(options.minimum)) / spread
        if self._normalizer is not None:
            values = self._normalizer({self._normalizer.argument or "x": values})
        if options.is_dense:
            return Numbers(values=values, num_present=num_present)
        if buckets.boundaries:
            edges = np.asarray(buckets.boundaries, np.float32)
            return self._lists(np.searchsorted(edges, values, side="right"), len(edges) + 1)
        if buckets.equal_width is not None:
            places = np.floor(values * buckets.equal_width).clip(0, buckets.equal_width - 1)
            return self._lists(places, buckets.equal_width)
        return self._lists(np.zeros_like(values), 1, weights=values)

    def _lists(
        self,
        places: npt.NDArray[Any],
        num_buckets: int,
        *,
        weights: npt.NDArray[np.float32] | None = None,
    ) -> IdLists:
        """Return one id per number; every position in a row has its own range of ids."""
        num_rows, width = places.shape
        first = np.arange(width) * num_buckets
        return IdLists(
            ids=(places.astype(np.int64) + first).reshape(-1),
            offsets=np.arange(num_rows + 1) * width,
            weights=None if weights is None else np.ascontiguousarray(weights).reshape(-1),
        )
