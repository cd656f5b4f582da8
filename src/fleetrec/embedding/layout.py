"""Which features are looked up in which tables, without torch: training and serving share it."""

import dataclasses
from collections.abc import Iterable
from typing import Literal

from fleetrec.core.sides import SAMPLE
from fleetrec.embedding.table import TableConfig

Combiner = Literal["sum", "mean", "sqrtn", "none"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedFeature:
    """A feature that is looked up in a table; features may share a table.

    The rows of a list are pooled into one vector, or with the combiner ``none`` form a sequence; of
    a list longer than ``max_length`` only the last ids are used. ``side`` is the side of the batch
    that has the feature. ``name`` is the name of the vectors in the model: by default that of the
    feature. Set it if a feature is used more than once.
    """

    feature: str
    table: str
    combiner: Combiner = "sum"
    max_length: int | None = None
    name: str = ""
    side: str = SAMPLE

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.feature)
        if self.max_length is None:
            return
        if self.is_pooled:
            raise ValueError(f"feature {self.name}: max_length is for the combiner 'none'")
        if self.max_length < 1:
            raise ValueError(
                f"feature {self.name}: max_length must be at least 1, got {self.max_length}"
            )

    @property
    def is_pooled(self) -> bool:
        """Whether the rows of a list become one vector."""
        return self.combiner != "none"

    @property
    def sequence_input(self) -> str:
        """The name of a sequence in ``Batch.embedded``."""
        return f"sequence_{self.name}"

    @property
    def lengths_input(self) -> str:
        """The name of the lengths of a sequence in ``Batch.embedded``."""
        return f"lengths_{self.name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LookupGroup:
    """The features of one side and width, which are looked up together."""

    dim: int
    optimizer_group: int
    side: str
    pooled: tuple[EmbeddedFeature, ...]
    sequences: tuple[EmbeddedFeature, ...]

    @property
    def features(self) -> tuple[EmbeddedFeature, ...]:
        """All features, pooled ones first."""
        return (*self.pooled, *self.sequences)

    @property
    def width(self) -> int:
        """The total width of the pooled vectors of a sample."""
        return len(self.pooled) * self.dim


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of one or several pooled vectors in the matrix of their group."""

    group: str
    begin: int
    end: int


class EmbeddingLayout:
    """The features and tables of a model, in groups that are looked up together."""

    def __init__(
        self, *, features: Iterable[EmbeddedFeature], tables: Iterable[TableConfig]
    ) -> None:
        listed = list(tables)
        self.tables = {table.name: table for table in listed}
        if len(self.tables) != len(listed):
            raise ValueError(f"tables must have different names, got {[t.name for t in listed]}")
        self.features = tuple(features)
        for feature in self.features:
            if feature.table not in self.tables:
                raise ValueError(f"feature {feature.feature}: no table is called {feature.table!r}")
        self.pooled = _by_name([f for f in self.features if f.is_pooled], "pooled")
        self.sequences = _by_name([f for f in self.features if not f.is_pooled], "a sequence")
        kinds = dict.fromkeys(self._kind_of(feature) for feature in self.features)
        self.groups = {_group_key(*kind): self._group(*kind) for kind in kinds}
        self.columns = {
            feature.name: Columns(group=key, begin=place * group.dim, end=(place + 1) * group.dim)
            for key, group in self.groups.items()
            for place, feature in enumerate(group.pooled)
        }

    def _group(self, dim: int, optimizer_group: int, side: str) -> LookupGroup:
        kind = (dim, optimizer_group, side)
        mine = [feature for feature in self.features if self._kind_of(feature) == kind]
        owns = [self.tables[feature.table].own_optimizer for feature in mine]
        if len({None if own is None else own.lr for own in owns}) > 1:
            raise ValueError(
                "tables of one width need one learning rate; set another optimizer_group for others"
            )
        return LookupGroup(
            dim=dim,
            optimizer_group=optimizer_group,
            side=side,
            pooled=tuple(feature for feature in mine if feature.is_pooled),
            sequences=tuple(feature for feature in mine if not feature.is_pooled),
        )

    def _kind_of(self, feature: EmbeddedFeature) -> tuple[int, int, str]:
        table = self.tables[feature.table]
        return (table.dim, table.optimizer_group, feature.side)


def _group_key(dim: int, optimizer_group: int, side: str) -> str:
    key = f"embedded_{dim}" + (f"_{optimizer_group}" if optimizer_group else "")
    return key if side == SAMPLE else f"{key}_{side}"


def _by_name(features: Iterable[EmbeddedFeature], what: str) -> dict[str, EmbeddedFeature]:
    named: dict[str, EmbeddedFeature] = {}
    for feature in features:
        if feature.name in named:
            raise ValueError(
                f"feature {feature.feature}: {feature.name!r} is {what} already; give one of them "
                "another name"
            )
        named[feature.name] = feature
    return named
