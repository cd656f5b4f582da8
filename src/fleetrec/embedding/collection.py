"""What a model says about its embeddings: which feature is looked up where, pooled how."""

# Shape suffixes: B samples, F features, D width of a row, E all widths together.

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from fleetrec.core.batch import Batch
from fleetrec.embedding.table import TableConfig

Combiner = Literal["sum", "mean", "sqrtn"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedFeature:
    """A feature that is looked up in a table; features may share a table."""

    feature: str
    table: str
    combiner: Combiner = "sum"


class EmbeddingCollection(nn.Module):
    """The embeddings of a model. Rows live in stores, not in the module.

    The vectors of a batch are looked up before the model runs (``Batch.embedded``), all features
    of one width together, so that they can be fetched early, from another process, or be the
    inputs of an exported graph. Their gradient goes back to the stores the same way.
    """

    def __init__(
        self, *, features: Sequence[EmbeddedFeature], tables: Sequence[TableConfig]
    ) -> None:
        super().__init__()
        self.tables = {table.name: table for table in tables}
        if len(self.tables) != len(tables):
            raise ValueError(f"tables must have different names, got {[t.name for t in tables]}")
        self.features = tuple(features)
        self.groups: dict[str, tuple[EmbeddedFeature, ...]] = {}
        for feature in features:
            if feature.table not in self.tables:
                raise ValueError(f"feature {feature.feature}: no table is called {feature.table!r}")
            group = f"embedded_{self.tables[feature.table].dim}"
            self.groups[group] = (*self.groups.get(group, ()), feature)

    @property
    def out_dim(self) -> int:
        """Return the width of all vectors of a sample together."""
        return sum(self.tables[f.table].dim for f in self.features)

    def group_dim(self, group: str) -> int:
        """Return the width of a row in a group."""
        return self.tables[self.groups[group][0].table].dim

    def forward(self, batch: Batch) -> "Embedded":
        """Return the pooled vectors of this batch."""
        missing = self.groups.keys() - batch.embedded.keys()
        if missing:
            raise ValueError(f"the batch was not looked up: no {sorted(missing)} in batch.embedded")
        return Embedded(collection=self, vectors=batch.embedded)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The pooled vectors of one batch; views where the layout allows it."""

    collection: EmbeddingCollection
    vectors: Mapping[str, Tensor]

    def cat(self) -> Tensor:
        """Return all vectors side by side, x_BE."""
        parts = [self.vectors[group] for group in self.collection.groups]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def stack(self) -> Tensor:
        """Return x_BFD; all tables must be equally wide."""
        (group, features), *others = self.collection.groups.items()
        if others:
            raise ValueError("stack() needs tables of one width; use cat()")
        dim = self.collection.group_dim(group)
        return self.vectors[group].reshape(-1, len(features), dim)
