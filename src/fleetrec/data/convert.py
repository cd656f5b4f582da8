"""Write samples in another format, so that reading gives the same batches again."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from fleetrec._native import write_examples
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.errors import DataError

LIST_SEPARATOR = "|"
ROW_GROUP_ROWS = 1 << 16
Write = Callable[[Batch], None]


def formats() -> tuple[str, ...]:
    """Return the formats that can be written."""
    return ("slot_text", "csv", "parquet", "arrow", "tfrecord")


def single_valued(batches: Iterable[Batch], inputs: Inputs) -> frozenset[str]:
    """Return the sparse features that have one id in every sample: they become flat columns."""
    single = set(inputs.sparse)
    for batch in batches:
        single -= {n for n in single if bool((batch.ids[n].lengths() != 1).any())}
    return frozenset(single)


def convert(
    batches: Iterable[Batch], target: Path, *, to: str, inputs: Inputs, single: frozenset[str]
) -> int:
    """Write all samples to one file; returns their number. ``single`` is of ``single_valued``."""
    num_samples = 0
    with _writer(target, to=to, inputs=inputs, single=single) as write:
        for batch in batches:
            if batch.ids.weights_N is not None:
                raise DataError("ids with weights can be read, but not converted")
            if batch.other_sides:
                sides = ", ".join(batch.other_sides)
                raise DataError(f"only samples can be converted; the batches also have {sides}")
            write(batch)
            num_samples += batch.num_samples
    return num_samples


def to_columns(batch: Batch, *, single: frozenset[str]) -> pa.RecordBatch:
    """Return a batch as columns: ids flat or as lists, dense features flat or of fixed size."""
    columns: dict[str, pa.Array] = {}
    for name in batch.ids:
        jagged = batch.ids[name]
        values = pa.array(jagged.values.numpy())
        if name not in single:
            offsets = pa.array(jagged.offsets.numpy().astype(np.int32))
            values = pa.ListArray.from_arrays(offsets, values)
        columns[name] = values
    for name, tensor in batch.dense.items():
        width = math.prod(tensor.shape[1:])
        flat = pa.array(tensor.flatten().numpy())
        columns[name] = flat if width == 1 else pa.FixedSizeListArray.from_arrays(flat, width)
    return pa.RecordBatch.from_pydict(columns)


@contextlib.contextmanager
def _writer(target: Path, *, to: str, inputs: Inputs, single: frozenset[str]) -> Iterator[Write]:
    if to == "tfrecord":
        with target.open("wb") as stream:
            yield lambda batch: _write_records(stream, batch)
        return
    with _column_writer(target, to=to, schema=_schema(inputs, single)) as write:
        yield lambda batch: write(to_columns(batch, single=single))


@contextlib.contextmanager
def _column_writer(
    target: Path, *, to: str, schema: pa.Schema
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    with contextlib.ExitStack() as stack:
        if to == "parquet":
            parquet = stack.enter_context(pq.ParquetWriter(target, schema, compression="zstd"))
            gathered = _RowGroup(parquet.write_table, schema)
            stack.callback(gathered.flush)
            yield gathered.add
        elif to == "arrow":
            file = stack.enter_context(pa.ipc.new_file(target, schema))
            yield file.write_batch
        elif to == "csv":
            text = pa.schema(
                [(f.name, pa.string() if _is_list(f.type) else f.type) for f in schema]
            )
            csv = stack.enter_context(
                pa.csv.CSVWriter(
                    target, text, write_options=pa.csv.WriteOptions(quoting_style="needed")
                )
            )
            yield lambda columns: csv.write_batch(_cells(columns, text))
        elif to == "slot_text":
            stream = stack.enter_context(target.open("wb"))
            yield lambda columns: _write_lines(stream, columns)
        else:
            raise DataError(f"cannot write {to!r}; known: {', '.join(formats())}")


class _RowGroup:
    """Collects batches into row groups."""

    def __init__(self, write: Callable[[pa.Table], None], schema: pa.Schema) -> None:
        self._write = write
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._num_rows = 0

    def add(self, columns: pa.RecordBatch) -> None:
        self._batches.append(columns)
        self._num_rows += columns.num_rows
        if self._num_rows >= ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            self._write(pa.Table.from_batches(self._batches, self._schema))
        self._batches, self._num_rows = [], 0


def _schema(inputs: Inputs, single: frozenset[str]) -> pa.Schema:
    fields: list[tuple[str, Any]] = [
        (name, pa.int64() if name in single else pa.list_(pa.int64())) for name in inputs.sparse
    ]
    for name, shape in inputs.dense.items():
        width = math.prod(shape)
        fields.append((name, pa.float32() if width == 1 else pa.list_(pa.float32(), width)))
    return pa.schema(fields)


def _cells(columns: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    cells = [
        _texts(column, LIST_SEPARATOR) if _is_list(column.type) else column
        for column in columns.columns
    ]
    return pa.RecordBatch.from_arrays(cells, schema=schema)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind))


def _texts(column: pa.Array, separator: str, prefix: str = "") -> pa.Array:
    """Return every value, or all values of a list, as one text; each value with a prefix."""
    is_list = _is_list(column.type)
    # Numbers become the shortest text that reads back as the same number.
    texts = (column.flatten() if is_list else column).cast(pa.string())
    if prefix:
        texts = pc.binary_join_element_wise(pa.scalar(prefix), texts, "")
    if not is_list:
        return texts
    if pa.types.is_list(column.type):
        offsets = column.offsets
    else:
        width = column.type.list_size
        offsets = pa.array(np.arange(len(column) + 1, dtype=np.int32) * width)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), separator)


def _write_records(stream: BinaryIO, batch: Batch) -> None:
    ids = batch.ids
    dense = [(name, x.reshape(batch.num_samples, -1).numpy()) for name, x in batch.dense.items()]
    lists = (ids.values_N.numpy(), ids.offsets.numpy())
    stream.write(write_examples(ids.names, *lists, dense, batch.num_samples))


def _write_lines(stream: Any, columns: pa.RecordBatch) -> None:
    tokens = [
        _texts(column, " ", prefix=f"{name}:")
        for name, column in zip(columns.schema.names, columns.columns, strict=True)
    ]
    lines = pc.binary_join_element_wise(*tokens, " ")
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    stream.write(text[0].as_buffer())
    stream.write(b"\n")
