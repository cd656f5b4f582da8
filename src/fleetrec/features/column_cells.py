"""Cells of a column as ids and numbers: integers, text, lists of them, dictionaries, maps."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from fleetrec._native import CellError, parse_id_cells, parse_number_cells
from fleetrec.features.column import BadValueError, Column
from fleetrec.features.id_rule import text_ids
from fleetrec.features.text import is_text, plain_text, text_buffers
from fleetrec.features.values import Floats, IdLists, Ids, to_offsets

Mask = npt.NDArray[np.bool_]


def typed_ids(column: Column) -> IdLists:
    """Return the ids of a column in which a text is one value; nulls and empty texts have none."""
    raw = column.raw
    if types.is_integer(raw.type) and not raw.null_count:  # the common case; fast
        return IdLists(ids=_as_int64(raw.to_numpy()))
    if not is_list(raw.type):
        ids, present = _scalar_ids(raw)
        return IdLists(ids=ids, offsets=None if present is None else to_offsets(present))
    weights = None
    if types.is_map(raw.type):
        raw = raw.cast(pa.list_(pa.struct([raw.type.key_field, raw.type.item_field])))
        values, weights = raw.flatten().field(0), _weights(raw, column)
    else:
        values = raw.flatten()
    offsets = to_offsets(_list_lengths(raw))
    ids, present = _scalar_ids(values)
    if present is not None:
        offsets = to_offsets(present)[offsets]
        weights = None if weights is None else weights[present]
    return IdLists(ids=ids, offsets=offsets, weights=weights)


def text_cell_ids(
    column: Column,
    *,
    list_separator: bytes | None,
    weight_separator: bytes | None,
    prefix: bytes | None,
) -> IdLists:
    """Return the ids of text cells, which may hold several values each; an empty one has none."""
    try:
        ids, offsets, weights = parse_id_cells(
            *text_buffers(plain_text(column.raw)),
            list_separator=list_separator,
            weight_separator=weight_separator,
            prefix=prefix,
        )
    except CellError as error:
        raise _bad_cell(column, error) from None
    return IdLists(ids=ids, offsets=offsets, weights=weights)


def text_cell_numbers(
    column: Column, *, list_separator: bytes | None, width: int, padding: int
) -> tuple[Floats, npt.NDArray[Any]]:
    """Return [rows, width] numbers of text cells, and which cells have any."""
    try:
        return parse_number_cells(
            *text_buffers(plain_text(column.raw)),
            list_separator=list_separator,
            width=width,
            padding=padding,
        )
    except CellError as error:
        raise _bad_cell(column, error) from None


def typed_numbers(column: Column, *, width: int, padding: int) -> tuple[Floats, npt.NDArray[Any]]:
    """Return [rows, width] numbers and which rows have any; a null or an empty list is no value."""
    raw = column.raw
    whole = _whole_rows(raw, width)
    if whole is not None and np.isfinite(whole).all():
        return whole, np.ones(len(raw), np.bool_)
    if types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    if is_list(raw.type):
        lengths, values = _list_lengths(raw), raw.flatten()
    else:
        lengths, values = _present(raw).astype(np.int64), raw.drop_null()
    present = lengths > 0
    wrong = np.flatnonzero(present & (lengths != width))
    if len(wrong):
        row = int(wrong[0])
        raise column.bad(row, raw[row], f"expected {width} numbers, got {lengths[row]}")
    numbers = _to_float32(values)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        at = int(bad[0])
        row = int(np.flatnonzero(present)[at // width])
        raise column.bad(row, values[at], "expected a finite number within float32")
    if len(numbers) == len(raw) * width:
        return numbers.reshape(-1, width), present
    padded = np.full((len(raw), width), padding, np.float32)
    padded[present] = numbers.reshape(-1, width)
    return padded, present


def _bad_cell(column: Column, error: CellError) -> BadValueError:
    return column.bad(error.row, error.text, error.reason)


def _whole_rows(column: pa.Array, width: int) -> Floats | None:
    """Return float32 numbers without checking single rows: the common case; fast."""
    values, kind = column, column.type
    if types.is_fixed_size_list(kind) and kind.list_size == width and not column.null_count:
        values = column.flatten()
    elif width != 1:
        return None
    if not types.is_float32(values.type) or values.null_count:
        return None
    numbers: Floats = values.to_numpy(zero_copy_only=True).reshape(-1, width)
    return numbers


def is_list(kind: pa.DataType) -> bool:
    """Return whether a row holds several values; a map is a list of pairs."""
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_map(kind)
    )


def holds_ids(kind: pa.DataType) -> bool:
    """Return whether values of this type can be ids."""
    if types.is_map(kind):
        return holds_ids(kind.key_type) and holds_numbers(kind.item_type)
    if is_list(kind):
        return not is_list(kind.value_type) and holds_ids(kind.value_type)
    if types.is_dictionary(kind):
        return holds_ids(kind.value_type)
    return bool(
        types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind) or is_text(kind)
    )


def holds_numbers(kind: pa.DataType) -> bool:
    """Return whether values of this type can be numbers."""
    if is_list(kind) and not types.is_map(kind):
        return not is_list(kind.value_type) and holds_numbers(kind.value_type)
    if types.is_dictionary(kind):
        return holds_numbers(kind.value_type)
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def _scalar_ids(column: pa.Array) -> tuple[Ids, Mask | None]:
    """Return the ids of values that are not null, and a mask of these; None: all."""
    kind = column.type
    if types.is_integer(kind):
        present = _present(column) if column.null_count else None
        return _as_int64(column.drop_null().to_numpy()), present
    if types.is_boolean(kind):
        return _scalar_ids(column.cast(pa.uint8()))
    if types.is_dictionary(kind):
        return _dictionary_ids(column)
    if types.is_null(kind):
        return np.empty(0, np.int64), np.zeros(len(column), np.bool_)
    return _text_ids(column)


def _text_ids(column: pa.Array) -> tuple[Ids, Mask | None]:
    column = plain_text(column)
    offsets, _ = text_buffers(column)
    present = offsets[1:] > offsets[:-1]
    return text_ids(column), None if present.all() else present


def _dictionary_ids(column: pa.Array) -> tuple[Ids, Mask | None]:
    """Compute the id of every unique value once."""
    ids, known = _scalar_ids(column.dictionary)
    if known is not None:
        by_index = np.zeros(len(known), np.int64)
        by_index[known] = ids
        ids = by_index
    indices = column.indices.drop_null().to_numpy(zero_copy_only=False)
    present = _present(column.indices) if column.null_count else None
    if known is not None:
        is_known = known[indices]
        indices = indices[is_known]
        present = np.ones(len(column), np.bool_) if present is None else present
        present[present] = is_known
    return ids[indices], present


def _as_int64(numbers: npt.NDArray[Any]) -> Ids:
    return (
        numbers.view(np.int64)
        if numbers.dtype == np.uint64
        else numbers.astype(np.int64, copy=False)
    )


def _present(column: pa.Array) -> Mask:
    present: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _list_lengths(column: pa.Array) -> Ids:
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return _as_int64(lengths.to_numpy(zero_copy_only=False))


def _to_float32(values: pa.Array) -> Floats:
    """Round as slot text does: to float64 first, then to float32; a null becomes NaN."""
    if types.is_float32(values.type) and not values.null_count:
        numbers: Floats = values.to_numpy(zero_copy_only=True)
        return numbers
    wide = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        return np.asarray(wide, np.float64).astype(np.float32)


def _weights(pairs: pa.Array, column: Column) -> Floats:
    """Return the values of the entries of a map, as a list of pairs; without a value 1."""
    weights = _to_float32(pc.fill_null(pairs.flatten().field(1), 1))
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        at = int(bad[0])
        row = int(np.searchsorted(to_offsets(_list_lengths(pairs)), at, side="right")) - 1
        raise column.bad(row, weights[at], "weight: expected a finite number within float32")
    return weights
