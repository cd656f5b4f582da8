"""Negative items for every batch, drawn uniformly from a catalogue."""

import dataclasses
from collections.abc import Mapping
from typing import Self

import numpy as np

from fleetrec.core.batch import Inputs, Side
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block, select_side
from fleetrec.data.columns import to_side
from fleetrec.features.feature_set import AnyColumns, FeatureSet


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniformNegatives:
    """Adds a side of ``num_negatives`` items, which all samples of a batch share.

    Items are drawn with replacement, each with the same probability, whatever the samples are: an
    item of the batch may be drawn as well.
    """

    catalogue: Side
    num_negatives: int
    side: str = "negatives"

    def __post_init__(self) -> None:
        if self.num_negatives < 1:
            raise ValueError(f"num_negatives must be at least 1, got {self.num_negatives}")
        if not self.catalogue.num_rows:
            raise DataError("the catalogue of negative items is empty; expected one row per item")

    @classmethod
    def from_columns(
        cls,
        columns: AnyColumns,
        features: FeatureSet,
        *,
        num_negatives: int,
        side: str = "negatives",
    ) -> Self:
        """Build the catalogue from columns of item attributes, by the rules of ``features``."""
        values = features.transform(columns)
        catalogue = to_side([values], sparse=tuple(values.ids), dense=tuple(values.dense))
        return cls(catalogue=catalogue, num_negatives=num_negatives, side=side)

    @property
    def inputs(self) -> Mapping[str, Inputs]:
        """Return the features of the items."""
        dense = {name: tuple(tensor.shape[1:]) for name, tensor in self.catalogue.dense.items()}
        return {self.side: Inputs(sparse=self.catalogue.ids.names, dense=dense)}

    def __call__(self, block: Block, rng: np.random.Generator) -> Block:
        """Return the block with the drawn items as a side."""
        rows = rng.integers(0, self.catalogue.num_rows, self.num_negatives)
        drawn = select_side([self.catalogue], rows)
        return dataclasses.replace(block, sides={**block.sides, self.side: drawn})
