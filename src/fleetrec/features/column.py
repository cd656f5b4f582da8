"""One column of the data: unchanged, as text, as lists of text, or as numbers."""

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from fleetrec._native import CellError, parse_number_cells
from fleetrec.config.features import ColumnOptions
from fleetrec.core.errors import DataError
from fleetrec.features.text import is_text, text_buffers
from fleetrec.features.values import Floats, Ids, to_offsets

MAX_SHOWN = 80


class BadValueError(DataError):
    """A value that cannot be parsed; the message names column and value, ``row`` counts from 0."""

    def __init__(self, *, column: str, row: int, text: str, reason: str) -> None:
        super().__init__(f"column {column!r}: {text[:MAX_SHOWN]!r}: {reason}")
        self.row = row


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Lists of values as text, none of them empty."""

    values: pa.Array  # large_binary, without nulls
    offsets: Ids

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return how many values each row has."""
        return np.diff(self.offsets)

    def row_of(self, value: int) -> int:
        """Return the row of a value."""
        return int(np.searchsorted(self.offsets, value, side="right")) - 1

    def first(self, max_length: int) -> "Texts":
        """Return lists of the first values."""
        lengths = self.lengths()
        place = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], lengths)
        kept = self.values.filter(pa.array(place < max_length))
        return Texts(values=kept, offsets=to_offsets(np.minimum(lengths, max_length)))


class Column:
    """The values of one column in some rows.

    ``raw`` is the unchanged column. In texts and numbers, missing values are the column's default.
    """

    def __init__(self, raw: pa.Array, options: ColumnOptions) -> None:
        self.options = options
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    @functools.cached_property
    def _values(self) -> pa.Array:
        is_dictionary = types.is_dictionary(self.raw.type)
        return self.raw.dictionary_decode() if is_dictionary else self.raw

    @property
    def is_list(self) -> bool:
        """Whether rows are lists already, so that no text has to be split."""
        return bool(types.is_list(self._values.type) or types.is_large_list(self._values.type))

    def texts(self, *, separator: str | None = None, precision: int | None = None) -> Texts:
        """Return the values as text; with ``separator`` a cell may hold several."""
        if self.is_list:
            lengths = pc.fill_null(pc.list_value_length(self._values), 0)
            values = _to_bytes(self._values.flatten(), precision=precision)
            return _present(values, _int64(lengths))
        cells = self._filled(precision=precision)
        if not separator:
            return _present(cells, np.ones(len(cells), np.int64))
        split = pc.split_pattern(cells, separator.encode())
        return _present(
            split.flatten().cast(pa.large_binary()), _int64(pc.list_value_length(split))
        )

    def numbers(self, *, width: int, separator: str) -> tuple[Floats, int]:
        """Return [rows, width] numbers, zeros for an empty cell, and how many cells have any."""
        if self.is_list or not is_text(self._values.type):
            return self._typed_numbers(width=width)
        offsets, content = text_buffers(self._filled())
        try:
            values, present = parse_number_cells(
                offsets,
                content,
                list_separator=separator.encode() if width > 1 else None,
                width=width,
                padding=0.0,
            )
        except CellError as error:
            raise BadValueError(
                column=self.options.name, row=error.row, text=error.text, reason=error.reason
            ) from None
        return values, int(np.count_nonzero(present))

    def bad(self, row: int, text: Any, reason: str) -> BadValueError:
        """Return the error about a value of this column."""
        shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return BadValueError(column=self.options.name, row=row, text=shown, reason=reason)

    def _typed_numbers(self, *, width: int) -> tuple[Floats, int]:
        lists = self._values
        lengths = np.ones(len(lists), np.int64)
        if self.is_list:
            lengths = _int64(pc.fill_null(pc.list_value_length(lists), 0))
            lists = lists.flatten()
        wrong = np.flatnonzero((lengths != width) & (lengths > 0))
        if len(wrong):
            row = int(wrong[0])
            reason = f"expected {width} numbers, got {lengths[row]}"
            raise self.bad(row, self._values[row], reason)
        default = float(self.options.default or 0)
        wide = pc.fill_null(lists.cast(pa.float64(), safe=False), default)
        found = wide.to_numpy(zero_copy_only=False).astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            row = int(np.repeat(np.arange(len(lengths)), lengths)[bad[0]])
            raise self.bad(row, lists[int(bad[0])], "expected a finite number within float32")
        present = lengths > 0
        values = np.full((len(lengths), width), default, np.float32)
        values[present] = found.reshape(-1, width)
        return values, int(np.count_nonzero(present))

    def _filled(self, *, precision: int | None = None) -> pa.Array:
        """Return cells as bytes; empty cells become the default."""
        cells = _to_bytes(self._values, precision=precision)
        if self.options.default:
            default = pa.scalar(self.options.default.encode(), pa.large_binary())
            cells = pc.if_else(pc.equal(pc.binary_length(cells), 0), default, cells)
        if precision is None or types.is_floating(self._values.type):
            return cells
        return self._rounded(cells, precision)

    def _rounded(self, cells: pa.Array, precision: int) -> pa.Array:
        """Round numbers that are given as text."""
        rounded = []
        for row, cell in enumerate(cells.to_pylist()):
            try:
                rounded.append(f"{float(cell):.{precision}f}" if cell else "")
            except ValueError:
                raise self.bad(row, cell, "expected a number, because of precision") from None
        return pa.array(rounded, pa.large_string()).cast(pa.large_binary())


def _to_bytes(values: pa.Array, *, precision: int | None) -> pa.Array:
    """Return values as large_binary; a null is an empty text, a number its decimals."""
    kind = values.type
    if types.is_floating(kind):
        shown = f"%.{6 if precision is None else precision}f"
        texts = [None if v is None else shown % v for v in values.to_pylist()]
        values = pa.array(texts, pa.large_string())
    elif types.is_boolean(kind):
        values = values.cast(pa.int8()).cast(pa.large_string())
    elif not is_text(kind):
        values = values.cast(pa.large_string())
    cells = values.cast(pa.large_binary())
    return pc.fill_null(cells, pa.scalar(b"", pa.large_binary())) if cells.null_count else cells


def _present(values: pa.Array, lengths: npt.NDArray[np.int64]) -> Texts:
    """Return lists without their empty values."""
    is_there = _int64(pc.binary_length(values)) > 0
    offsets = to_offsets(lengths)
    if is_there.all():
        return Texts(values=values, offsets=offsets)
    before = to_offsets(is_there.astype(np.int64))
    return Texts(values=values.filter(pa.array(is_there)), offsets=before[offsets])


def _int64(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
