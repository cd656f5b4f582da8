"""Values of a column in their order."""

from collections.abc import Mapping

import numpy as np

from fleetrec.features.column import Column
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.steps import Steps, read_steps
from fleetrec.features.text_numbers import to_floats
from fleetrec.features.values import IdLists, Ids


class SequenceFeature(DeclaredFeature, name="sequence"):
    """The ids of a cell, those of at most the first ``max_length`` steps.

    With boundaries the values are numbers, and their buckets are the ids.
    """

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return the ids."""
        column = columns[self.options.columns[0]]
        steps = read_steps(column, self.options)
        return IdLists(ids=self._ids(steps, column), offsets=steps.texts.offsets)

    def _ids(self, steps: Steps, column: Column) -> Ids:
        buckets, options = self.options.buckets, self.options
        if not buckets.boundaries and buckets.equal_width is None:
            return self._buckets.ids(steps.texts, column)
        numbers = to_floats(steps.texts, column, reason="expected a finite number")
        if options.maximum > options.minimum:
            spread = np.float32(options.maximum - options.minimum)
            numbers = (numbers - np.float32(options.minimum)) / spread
        if buckets.boundaries:
            edges = np.asarray(buckets.boundaries, np.float32)
            return np.searchsorted(edges, numbers, side="right").astype(np.int64)
        assert buckets.equal_width is not None
        places = np.floor(numbers * buckets.equal_width).clip(0, buckets.equal_width - 1)
        return places.astype(np.int64)
