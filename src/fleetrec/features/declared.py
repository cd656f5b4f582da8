"""The base class of features that declare their columns."""

from collections.abc import Collection

from fleetrec.config.features import FeatureOptions
from fleetrec.features.buckets import Buckets
from fleetrec.features.feature import Feature


class DeclaredFeature(Feature):
    """A feature over declared columns, none of which may be missing."""

    def __init__(self, options: FeatureOptions) -> None:
        self.options = options
        self.shape = (options.width,) if options.is_dense else None
        self._buckets = Buckets(options.buckets, feature=options.name)

    def columns_in(self, names: Collection[str]) -> tuple[str, ...]:
        """Return all declared columns."""
        del names
        return self.options.columns
