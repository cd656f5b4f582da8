"""Rows that come in named columns: chunks of them, and blocks of their features."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import pyarrow as pa
import torch

from fleetrec.config.job import DatasetOptions
from fleetrec.core.batch import Side
from fleetrec.core.jagged import KeyedJagged
from fleetrec.data.block import Block, SlotCounts
from fleetrec.data.source import BadRowError, RowChunk
from fleetrec.features.column import BadValueError
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.values import FeatureValues, join_ids


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableChunk(RowChunk):
    """Rows of typed columns, of which only those that are needed were read."""

    rows: pa.RecordBatch
    begin: int  # the place of the first row
    begin_fraction: float = 0.0
    undeclared: tuple[str, ...] = ()

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return int(self.rows.num_rows)

    def take(self, max_rows: int) -> tuple[Self, Self | None]:
        """Cut after at most ``max_rows`` rows, without a copy."""
        if max_rows >= self.num_rows:
            return self, None
        share = max_rows / self.num_rows
        fraction = self.begin_fraction + (self.fraction - self.begin_fraction) * share
        head = dataclasses.replace(
            self, rows=self.rows.slice(0, max_rows), end=self.begin + max_rows, fraction=fraction
        )
        tail = dataclasses.replace(
            self,
            rows=self.rows.slice(max_rows),
            first_row=self.first_row + max_rows,
            begin=self.begin + max_rows,
            begin_fraction=fraction,
        )
        return head, tail


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowValues:
    """The features of the rows of one chunk, and counts of present values."""

    values: FeatureValues
    undeclared: tuple[str, ...] = ()
    num_empty: int = 0


def decode_tables(
    features: FeatureSet,
    chunks: Sequence[RowChunk],
    options: DatasetOptions,
    *,
    place: Callable[[TableChunk, int], str],
) -> Block:
    """Return the samples of typed columns; ``place`` names the file and the row of a bad value."""
    parts = []
    for index, chunk in enumerate(chunks):
        assert isinstance(chunk, TableChunk)
        try:
            values = features.transform_rows(chunk.rows)
        except BadValueError as fault:
            where = place(chunk, fault.row)
            raise to_bad_row(fault, place=where, chunks=chunks, index=index) from None
        parts.append(RowValues(values=values, undeclared=chunk.undeclared))
    return assemble(options, parts)


def assemble(options: DatasetOptions, parts: Sequence[RowValues]) -> Block:
    """Return the rows of all parts as one block."""
    values = [part.values for part in parts]
    dense = [slot.name for slot in options.dense]
    side = to_side(values, sparse=options.sparse, dense=dense)
    undeclared: dict[str, int] = {}
    for part in parts:
        for name in part.undeclared:
            undeclared[name] = undeclared.get(name, 0) + part.values.num_rows
    names = (*options.sparse, *dense)
    return Block(
        ids=side.ids,
        dense=side.dense,
        counts=SlotCounts(
            num_samples=side.num_rows,
            seen=np.array([sum(one.num_present[n] for one in values) for n in names], np.int64),
            undeclared=undeclared,
            num_empty=sum(part.num_empty for part in parts),
        ),
    )


def to_side(
    values: Sequence[FeatureValues], *, sparse: Sequence[str], dense: Sequence[str]
) -> Side:
    """Return the rows of all values as tensors, which share no memory with them."""
    keyed = join_ids(values, sparse)
    return Side(
        ids=KeyedJagged(
            names=keyed.names,
            values_N=torch.from_numpy(keyed.ids),
            offsets=torch.from_numpy(keyed.offsets),
            num_samples=keyed.num_rows,
            weights_N=None if keyed.weights is None else torch.from_numpy(keyed.weights),
        ),
        dense={
            name: torch.from_numpy(np.concatenate([one.dense[name] for one in values]))
            for name in dense
        },
    )


def to_bad_row(
    fault: BadValueError, *, place: str, chunks: Sequence[RowChunk], index: int
) -> BadRowError:
    """Return the error about a row of chunk ``index``; ``place`` names its file and line."""
    before = sum(chunk.num_rows for chunk in chunks[:index])
    return BadRowError(f"{place}: {fault}", row=before + fault.row)
