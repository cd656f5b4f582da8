"""Rows that come in named columns: which column is which feature, and what is wrong with one."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.data.ids import build_id_maps
from fleetrec.data.lists import Columns, IdLists, Numbers
from fleetrec.data.source import BadRowError, RowChunk

MAX_SHOWN = 80


class BadCellError(Exception):
    """A value that cannot be understood, in some row of one column."""

    def __init__(self, *, row: int, text: str, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.text = text[:MAX_SHOWN]
        self.reason = reason


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


class ColumnDecoder(ABC):
    """Finds the columns of features; how a column is understood is left to the kinds of it."""

    def __init__(self, options: DatasetOptions) -> None:
        self._options = options
        self._id_maps = build_id_maps(options)
        self.padding = options.padding

    @abstractmethod
    def to_ids(self, column: pa.Array, *, feature: str) -> IdLists:
        """Return the ids of a column; raises BadCellError."""

    @abstractmethod
    def to_numbers(self, column: pa.Array, *, width: int) -> tuple[Any, Any]:
        """Return float32 numbers [rows, width], and which rows have any; raises BadCellError."""

    def decode(self, rows: pa.RecordBatch, *, undeclared: tuple[str, ...] = ()) -> Columns:
        """Return the features of some rows.

        Raises BadColumnError for the first row with a bad value.
        """
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        faults: list[tuple[BadCellError, str]] = []
        sparse = [self._ids(name, columns, faults) for name in self._options.sparse]
        dense = [self._numbers(slot, columns, faults) for slot in self._options.dense]
        if faults:
            fault, column = min(faults, key=lambda found: found[0].row)
            raise BadColumnError(fault, column=column)
        return Columns(num_rows=rows.num_rows, sparse=sparse, dense=dense, undeclared=undeclared)

    def _ids(
        self, name: str, columns: Mapping[str, pa.Array], faults: list[tuple[BadCellError, str]]
    ) -> IdLists | None:
        if name not in columns:
            return None
        try:
            lists = self.to_ids(columns[name], feature=name)
        except BadCellError as fault:
            faults.append((fault, name))
            return None
        ids = self._id_maps[name](lists.ids)
        return lists if ids is lists.ids else dataclasses.replace(lists, ids=ids)

    def _numbers(
        self,
        slot: DenseSlot,
        columns: Mapping[str, pa.Array],
        faults: list[tuple[BadCellError, str]],
    ) -> Numbers | None:
        names = dense_columns(slot, columns)
        found = []
        for name in names:
            try:
                width = math.prod(slot.shape) if len(names) == 1 else 1
                found.append(self.to_numbers(columns[name], width=width))
            except BadCellError as fault:
                faults.append((fault, name))
        if not found:
            return None
        if len(found) == 1:
            values, present = found[0]
        else:
            values = np.concatenate([numbers for numbers, _ in found], axis=1)
            present = np.logical_or.reduce([is_there for _, is_there in found])
        return Numbers(values=values, num_present=int(np.count_nonzero(present)))


class BadColumnError(Exception):
    """The first bad value of some rows, and the column it stands in."""

    def __init__(self, fault: BadCellError, *, column: str) -> None:
        super().__init__(f"column {column!r}: {fault.text!r}: {fault.reason}")
        self.row = fault.row


class RowDecoder(Protocol):
    """From rows of named columns to features."""

    def decode(self, rows: pa.RecordBatch, *, undeclared: tuple[str, ...] = ()) -> Columns:
        """Return the features of some rows; raises BadColumnError for the first bad row."""
        ...


def dense_columns(slot: DenseSlot, columns: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Return the columns of a dense feature: one of its name, or numbered ones (x1, or x_1)."""
    if slot.name in columns:
        return [slot.name]
    for mark in ("", "_"):
        numbered = [f"{slot.name}{mark}{i + 1}" for i in range(math.prod(slot.shape))]
        if all(name in columns for name in numbered):
            return numbered
    return []


def needed_columns(
    options: DatasetOptions, columns: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the columns that features are made of, and all others."""
    if options.features:
        needed = {name for feature in options.features for name in feature.columns}
    else:
        needed = {name for name in options.sparse if name in columns}
        needed.update(name for slot in options.dense for name in dense_columns(slot, columns))
    others = tuple(name for name in columns if name not in needed)
    return [name for name in columns if name in needed], others


def to_bad_row(
    fault: BadColumnError, *, place: str, chunks: Sequence[RowChunk], index: int
) -> BadRowError:
    """Return the error about a row of chunk ``index``; ``place`` names its file and line."""
    before = sum(chunk.num_rows for chunk in chunks[:index])
    return BadRowError(f"{place}: {fault}", row=before + fault.row)
