"""The base class of features.

To add one, write ``features/<name>.py`` with ``class X(Feature, name="<name>")``.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from fleetrec.config.features import AnyFeatureOptions
from fleetrec.features.column import Column
from fleetrec.features.values import IdLists, Numbers


class Feature(ABC):
    """Computes one feature from columns; holds only its options, so threads may share it."""

    family: ClassVar[dict[str, type["Feature"]]] = {}
    shape: tuple[int, ...] | None = None  # of the numbers of a dense feature; None: it has ids
    padding: int | None = None  # the id of a row without a value; None: such a row has no id
    has_weights: bool = False  # every id has a weight, also the padding

    def __init_subclass__(cls, *, name: str | None = None) -> None:
        super().__init_subclass__()
        if name is None:  # a base of several types
            return
        if name in Feature.family:
            raise TypeError(f"two types of features are called {name!r}")
        Feature.family[name] = cls

    @abstractmethod
    def __init__(self, options: Any) -> None: ...

    @abstractmethod
    def columns_in(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the columns that the feature needs of those that the data has.

        Required columns are returned even if the data does not have them. An empty list means that
        no row has a value.
        """

    def type_problem(self, kind: pa.DataType) -> str | None:
        """Return why a column cannot have this type; None: it can."""
        del kind
        return None

    @abstractmethod
    def transform(self, columns: Mapping[str, Column]) -> IdLists | Numbers:
        """Return the feature in the rows of its columns; raises BadValueError."""


def build_feature(options: AnyFeatureOptions) -> Feature:
    """Return the feature that the options describe."""
    importlib.import_module(f"fleetrec.features.{options.kind}")
    return Feature.family[options.kind](options)
