"""Cells of text as ids and numbers: several values in a cell, and weights behind ids."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from fleetrec._native import CellError, parse_id_cells, parse_number_cells
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.columns import BadCellError, ColumnDecoder
from fleetrec.data.lists import IdLists
from fleetrec.features.text import text_buffers


class TextDecoder(ColumnDecoder):
    """Understands columns of bytes. The text of features in ``prefixes`` is hashed behind them."""

    def __init__(
        self, options: DatasetOptions, *, prefixes: Mapping[str, bytes] | None = None
    ) -> None:
        super().__init__(options)
        table = options.text_table
        self._list_separator = to_byte(table.list_separator, options, key="list_separator")
        self._weight_separator = to_byte(table.weight_separator, options, key="weight_separator")
        self._prefixes = prefixes or {}

    def to_ids(self, column: pa.Array, *, feature: str) -> IdLists:
        """Return the ids of a column; an empty cell has none."""
        try:
            ids, offsets, weights = parse_id_cells(
                *text_buffers(column),
                list_separator=self._list_separator,
                weight_separator=self._weight_separator,
                prefix=self._prefixes.get(feature),
            )
        except CellError as error:
            raise BadCellError(row=error.row, text=error.text, reason=error.reason) from None
        return IdLists(ids=ids, offsets=offsets, weights=weights)

    def to_numbers(self, column: pa.Array, *, width: int) -> tuple[Any, Any]:
        """Return the numbers of a column; an empty cell has none."""
        try:
            return parse_number_cells(
                *text_buffers(column),
                list_separator=self._list_separator,
                width=width,
                padding=self.padding,
            )
        except CellError as error:
            raise BadCellError(row=error.row, text=error.text, reason=error.reason) from None


def to_byte(text: str | None, options: DatasetOptions, *, key: str) -> bytes | None:
    """Return a separator as a byte; None for none."""
    if not text:
        return None
    encoded = text.encode()
    if len(encoded) != 1 or encoded in b"\r\n":
        raise DataError(
            f"data set {options.name}: {key}: expected one byte that ends no line, got {text!r}"
        )
    return encoded
