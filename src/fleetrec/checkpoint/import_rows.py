"""Rows from a Parquet or Arrow file into a new checkpoint, from which a run can start."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetrec.checkpoint.folder import write_folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.checkpoint.table_view import COLUMNS
from fleetrec.checkpoint.tables import TABLES, table_folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, DataError
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Initializer, RowOptimizer, TableConfig

Array = npt.NDArray[Any]
REQUIRED = ("id", "vector")
PART = "imported"
ARROW_MAGIC = b"ARROW1"


def import_rows(source: str | Path, target: str | Path, *, table: str) -> int:
    """Create a checkpoint that contains one table; returns the number of rows.

    The rows have no optimizer state: a run loads them in a warm start.
    """
    source, target = storage.to_url(source), storage.to_url(target)
    if storage.exists(target):
        raise CheckpointError(f"{storage.shown(target)}: exists already; name a new folder")
    with _opened(source) as (schema, batches):
        _check_columns(source, schema)
        store: NativeStore | None = None
        for batch in batches:
            vectors = _vectors(source, batch)
            if store is None:
                store = _new_store(table, vectors.shape[1])
            _add(source, store, batch, vectors)
    if store is None:
        raise DataError(f"{source}: holds no rows")
    finished = store

    def fill(staging: Staging) -> dict[str, Any]:
        with staging.folder(table_folder(PART, "")) as folder:
            written = finished.write(folder / table, parent=None)
        return {TABLES: {PART: {table: written.record.to_plain()}}}

    meta = {"kind": "checkpoint", "imported_from": storage.name_of(source)}
    write_folder(target, contents={}, meta=meta, fill=fill)
    return len(store)


def _new_store(table: str, dim: int) -> NativeStore:
    try:
        config = TableConfig(name=table, dim=dim, initializer=Initializer(kind="constant"))
        return NativeStore(config, RowOptimizer(name="sgd"), seed=0)
    except ValueError as error:
        raise DataError(f"--table: {error}") from error


def _add(source: str, store: NativeStore, batch: pa.RecordBatch, vectors: Array) -> None:
    width, dim = vectors.shape[1], store.dim
    if width != dim:
        raise DataError(f"{source}: vectors must be equally wide, got {sorted([dim, width])}")
    try:
        store.table.add_rows(
            ids=_ids(source, batch),
            rows=vectors,
            shows=_counts(source, batch, "show"),
            clicks=_counts(source, batch, "click"),
            last_seen=_times(source, batch),
        )
    except ValueError as error:
        raise DataError(f"{source}: {error}") from error


@contextlib.contextmanager
def _opened(source: str) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open a Parquet or Arrow file, recognised by its first bytes."""
    try:
        with _open(source) as stream:
            if stream.read(len(ARROW_MAGIC)) == ARROW_MAGIC:
                stream.seek(0)
                reader = pa.ipc.open_file(stream)
                numbers = range(reader.num_record_batches)
                yield reader.schema, _not_empty(map(reader.get_batch, numbers))
            else:
                file = pq.ParquetFile(stream)
                yield file.schema_arrow, _not_empty(file.iter_batches())
    except FileNotFoundError:
        raise DataError(f"{source}: no such file") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{source}: neither Parquet nor Arrow: {reason}") from error


def _open(source: str) -> BinaryIO:
    if storage.is_local(source):
        return storage.open_read(source)
    with storage.storage_errors(source, doing="opened", kind=DataError):
        return storage.open_read(source)


def _not_empty(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _check_columns(source: str, schema: pa.Schema) -> None:
    missing = [name for name in REQUIRED if name not in schema.names]
    unknown = [name for name in schema.names if name not in COLUMNS]
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    for what, names in (("lacks", missing), ("has unknown", unknown), ("has twice", twice)):
        if names:
            raise DataError(
                f"{source}: {what} {', '.join(names)}; expected the columns "
                f"{', '.join(REQUIRED)} and optionally {', '.join(COLUMNS[2:])}"
            )


def _ids(source: str, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    column = batch.column("id")
    _check_type(source, "id", column, is_right=pa.types.is_integer(column.type), kind="integers")
    ids = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(ids.astype(np.int64))  # of uint64 the same 64 bits


def _vectors(source: str, batch: pa.RecordBatch) -> Array:
    column = batch.column("vector")
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    is_right = any(is_kind(column.type) for is_kind in kinds)
    is_right = is_right and pa.types.is_floating(column.type.value_type)
    _check_type(source, "vector", column, is_right=is_right, kind="lists of floats")
    widths = pc.list_value_length(column).unique().to_pylist()
    if len(widths) != 1 or not widths[0]:
        raise DataError(f"{source}: vectors must be equally wide, got {sorted(widths)}")
    values = pc.list_flatten(column)
    rows = values.to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, widths[0])
    if not np.isfinite(rows).all():
        raise DataError(f"{source}: column 'vector' must hold finite numbers")
    return np.ascontiguousarray(rows)


def _counts(source: str, batch: pa.RecordBatch, name: str) -> Array | None:
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    is_right = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    _check_type(source, name, column, is_right=is_right, kind="numbers")
    counts = column.to_numpy(zero_copy_only=False).astype(np.float32)
    if not (np.isfinite(counts) & (counts >= 0)).all():
        raise DataError(f"{source}: column {name!r} must hold finite numbers from 0 on")
    return np.ascontiguousarray(counts)


def _times(source: str, batch: pa.RecordBatch) -> npt.NDArray[np.uint32] | None:
    if "last_seen" not in batch.schema.names:
        return None
    column = batch.column("last_seen")
    is_right = pa.types.is_integer(column.type)
    _check_type(source, "last_seen", column, is_right=is_right, kind="integers")
    times = column.to_numpy(zero_copy_only=False)
    if (times < 0).any() or (times >= 2**32).any():
        raise DataError(f"{source}: column 'last_seen' must hold seconds from 0 to 2^32-1")
    return np.ascontiguousarray(times.astype(np.uint32))


def _check_type(source: str, name: str, column: pa.Array, *, is_right: bool, kind: str) -> None:
    if not is_right:
        raise DataError(f"{source}: column {name!r} must hold {kind}, it holds {column.type}")
    if column.null_count:
        raise DataError(f"{source}: column {name!r} holds {column.null_count} nulls")
