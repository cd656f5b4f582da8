"""Columns of text in Arrow's memory layout."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are text or bytes, of any of Arrow's layouts."""
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
    )


def text_buffers(column: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Return offsets and bytes of a column of text or bytes that has no nulls, without a copy."""
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    dtype = np.int64 if is_large else np.int32
    if len(column) == 0:  # Arrow may leave out the single offset
        return np.zeros(1, dtype), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, dtype)[column.offset : column.offset + len(column) + 1]
    return ends, np.frombuffer(b"" if data is None else data, np.uint8)


def plain_text(column: pa.Array) -> pa.Array:
    """Return a column of text or bytes with offsets and without nulls, which become empty."""
    if types.is_string_view(column.type) or types.is_binary_view(column.type):
        column = column.cast(pa.large_binary())
    if column.null_count:
        column = column.fill_null(pa.scalar(b"", pa.binary()).cast(column.type))
    return column
