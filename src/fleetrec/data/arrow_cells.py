"""Typed columns as ids and numbers: integers, text, lists of them, dictionaries, maps."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.columns import BadCellError, ColumnDecoder, dense_columns
from fleetrec.data.ids import Ids, text_ids
from fleetrec.data.lists import Floats, IdLists
from fleetrec.features.text import is_text, text_buffers

Mask = npt.NDArray[np.bool_]


def check_schema(options: DatasetOptions, schema: pa.Schema, *, where: str) -> None:
    """Look whether the columns have types that the declared features can be made of."""
    names = schema.names
    for name in options.sparse:
        if names.count(name) == 1 and not _holds_ids(schema.field(name).type):
            raise DataError(
                f"{where}: column {name!r}: ids are integers, text, or lists of them, got "
                f"{schema.field(name).type}; cast the column, or declare a dense feature"
            )
    for slot in options.dense:
        for name in dense_columns(slot, names):
            if names.count(name) == 1 and not _holds_numbers(schema.field(name).type):
                raise DataError(
                    f"{where}: column {name!r}: a dense feature is made of numbers or lists of "
                    f"them, got {schema.field(name).type}; cast the column"
                )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{where}: expected columns with different names, got {twice[0]!r} twice")


class ArrowDecoder(ColumnDecoder):
    """Understands columns of the types that ``check_schema`` lets pass; a text is one value."""

    def to_ids(self, column: pa.Array, *, feature: str) -> IdLists:
        """Return the ids of a column; nulls and empty texts are no values."""
        del feature
        if types.is_integer(column.type) and not column.null_count:  # the common case, and quick
            return IdLists(ids=_as_int64(column.to_numpy()))
        if not _is_list(column.type):
            ids, present = _scalar_ids(column)
            return IdLists(ids=ids, offsets=None if present is None else _to_offsets(present))
        weights = None
        if types.is_map(column.type):
            column = column.cast(
                pa.list_(pa.struct([column.type.key_field, column.type.item_field]))
            )
            values, weights = column.flatten().field(0), _weights(column)
        else:
            values = column.flatten()
        offsets = _to_offsets(_list_lengths(column))
        ids, present = _scalar_ids(values)
        if present is not None:
            offsets = _to_offsets(present)[offsets]
            weights = None if weights is None else weights[present]
        return IdLists(ids=ids, offsets=offsets, weights=weights)

    def to_numbers(self, column: pa.Array, *, width: int) -> tuple[Floats, Mask]:
        """Return the numbers of a column; a null or an empty list is no value."""
        whole = _whole_rows(column, width)
        if whole is not None and np.isfinite(whole).all():
            return whole, np.ones(len(column), np.bool_)
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if _is_list(column.type):
            lengths, values = _list_lengths(column), column.flatten()
        else:
            lengths, values = _present(column).astype(np.int64), column.drop_null()
        present = lengths > 0
        wrong = np.flatnonzero(present & (lengths != width))
        if len(wrong):
            row = int(wrong[0])
            raise BadCellError(
                row=row,
                text=str(column[row]),
                reason=f"expected {width} numbers, got {lengths[row]}",
            )
        numbers = _to_float32(values)
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            at = int(bad[0])
            row = int(np.flatnonzero(present)[at // width])
            raise BadCellError(
                row=row, text=str(values[at]), reason="expected a finite number within float32"
            )
        if len(numbers) == len(column) * width:
            return numbers.reshape(-1, width), present
        padded = np.full((len(column), width), self.padding, np.float32)
        padded[present] = numbers.reshape(-1, width)
        return padded, present


def _whole_rows(column: pa.Array, width: int) -> Floats | None:
    """Return float32 numbers that need no look at single rows: the common case, and quick."""
    values, kind = column, column.type
    if types.is_fixed_size_list(kind) and kind.list_size == width and not column.null_count:
        values = column.flatten()
    elif width != 1:
        return None
    if not types.is_float32(values.type) or values.null_count:
        return None
    numbers: Floats = values.to_numpy(zero_copy_only=True).reshape(-1, width)
    return numbers


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_map(kind)
    )


def _holds_ids(kind: pa.DataType) -> bool:
    if types.is_map(kind):
        return _holds_ids(kind.key_type) and _holds_numbers(kind.item_type)
    if _is_list(kind):
        return not _is_list(kind.value_type) and _holds_ids(kind.value_type)
    if types.is_dictionary(kind):
        return _holds_ids(kind.value_type)
    return bool(
        types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind) or is_text(kind)
    )


def _holds_numbers(kind: pa.DataType) -> bool:
    if _is_list(kind) and not types.is_map(kind):
        return not _is_list(kind.value_type) and _holds_numbers(kind.value_type)
    if types.is_dictionary(kind):
        return _holds_numbers(kind.value_type)
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def _scalar_ids(column: pa.Array) -> tuple[Ids, Mask | None]:
    """Return the ids of the values that are there, and which are; None: all."""
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
    if types.is_string_view(column.type) or types.is_binary_view(column.type):
        column = column.cast(pa.large_binary())
    if column.null_count:
        column = column.fill_null(pa.scalar(b"", pa.binary()).cast(column.type))
    offsets, _ = text_buffers(column)
    present = offsets[1:] > offsets[:-1]
    return text_ids(column), None if present.all() else present


def _dictionary_ids(column: pa.Array) -> tuple[Ids, Mask | None]:
    """Look at every different value once."""
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


def _to_offsets(lengths: npt.NDArray[Any]) -> Ids:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _to_float32(values: pa.Array) -> Floats:
    """Round as slot text does: to float64 first, then to float32; a null becomes NaN."""
    if types.is_float32(values.type) and not values.null_count:
        numbers: Floats = values.to_numpy(zero_copy_only=True)
        return numbers
    wide = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        return np.asarray(wide, np.float64).astype(np.float32)


def _weights(column: pa.Array) -> Floats:
    """Return the values of the entries of a map, as a list of pairs; without a value 1."""
    weights = _to_float32(pc.fill_null(column.flatten().field(1), 1))
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        at = int(bad[0])
        row = int(np.searchsorted(_to_offsets(_list_lengths(column)), at, side="right")) - 1
        raise BadCellError(
            row=row, text=str(weights[at]), reason="weight: expected a finite number within float32"
        )
    return weights
