"""One value of a column."""

from collections.abc import Mapping

from fleetrec.features.column import Column
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.values import IdLists


class IdFeature(DeclaredFeature, name="id"):
    """The id of a cell, none if it is empty; several if the data has lists."""

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return the ids."""
        column = columns[self.options.columns[0]]
        texts = column.texts(precision=self.options.precision)
        return IdLists(ids=self._buckets.ids(texts, column), offsets=texts.offsets)
