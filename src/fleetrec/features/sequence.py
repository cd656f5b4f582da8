"""Values of a column in their order."""

from collections.abc import Mapping

from fleetrec.features.column import Column
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.values import IdLists


class SequenceFeature(DeclaredFeature, name="sequence"):
    """The ids of a cell, at most the first ``max_length``."""

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return the ids."""
        options = self.options
        column = columns[options.columns[0]]
        texts = column.texts(separator=options.separator, precision=options.precision)
        if options.max_length is not None:
            texts = texts.first(options.max_length)
        return IdLists(ids=self._buckets.ids(texts, column), offsets=texts.offsets)
