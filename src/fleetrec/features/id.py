"""One value of a column."""

from collections.abc import Mapping

from fleetrec.config.features import FeatureOptions
from fleetrec.features.buckets import Buckets
from fleetrec.features.column import Column
from fleetrec.features.feature import Feature
from fleetrec.features.values import IdLists


class IdFeature(Feature, name="id"):
    """The id of a cell, none if it is empty; several if the data has lists."""

    def __init__(self, options: FeatureOptions) -> None:
        super().__init__(options)
        self._buckets = Buckets(options.buckets, feature=options.name)

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return the ids."""
        column = columns[self.options.columns[0]]
        texts = column.texts(precision=self.options.precision)
        return IdLists(ids=self._buckets.ids(texts, column), offsets=texts.offsets)
