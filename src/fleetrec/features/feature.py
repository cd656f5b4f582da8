"""What a type of feature is.

To add one, write ``features/<name>.py`` with ``class X(Feature, name="<name>")``.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from fleetrec.config.features import FeatureOptions
from fleetrec.features.column import Column
from fleetrec.features.values import IdLists, Numbers


class Feature(ABC):
    """Makes one feature out of columns; holds nothing but what was declared."""

    family: ClassVar[dict[str, type["Feature"]]] = {}

    def __init_subclass__(cls, *, name: str) -> None:
        super().__init_subclass__()
        if name in Feature.family:
            raise TypeError(f"two types of features are called {name!r}")
        Feature.family[name] = cls

    def __init__(self, options: FeatureOptions) -> None:
        self.options = options

    @abstractmethod
    def transform(self, columns: Mapping[str, Column]) -> IdLists | Numbers:
        """Return the feature in the rows of the columns; raises BadValueError."""


def build_feature(options: FeatureOptions) -> Feature:
    """Return the feature that the options describe."""
    importlib.import_module(f"fleetrec.features.{options.kind}")
    return Feature.family[options.kind](options)
