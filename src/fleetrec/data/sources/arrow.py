"""Arrow IPC: files (Feather version 2 is the same) and streams."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.ipc

from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.columns import TableChunk, decode_tables
from fleetrec.data.files import DataFile, storage_errors
from fleetrec.data.source import FileSlice, RowChunk, Source
from fleetrec.features.feature_set import FeatureSet

FILE_MAGIC = b"ARROW1"
FEATHER_1_MAGIC = b"FEA1"
# A position is the index of a record batch and, in the low bits, of a row within it, so that
# reading can begin at a batch without counting the rows before it.
ROW_BITS = 32

Reader: TypeAlias = pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader


class Arrow(Source, name="arrow"):
    """Reads the columns that are declared; local files are mapped into memory."""

    suffixes = (".arrow", ".arrows", ".feather", ".ipc")
    takes_streams = False
    applies_id_rules = True

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._features = FeatureSet(dataset_features(options))

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[TableChunk]:
        """Yield record batches, cut at the ends of the slice."""
        path = file_slice.file.path
        with storage_errors(path, doing="read"), _opened(file_slice.file) as stream:
            reader = _reader(stream, file_slice.file)
            self._features.check_schema(reader.schema, where=path)
            needed, undeclared = self._features.split_columns(reader.schema.names)
            reader = _reader(stream, file_slice.file, columns=needed)
            for begin, end, rows in _batches(reader, begin=offset, end=file_slice.end):
                yield TableChunk(
                    file_slice=file_slice,
                    first_row=row,
                    begin=begin,
                    end=end,
                    begin_fraction=_fraction(file_slice, begin, reader),
                    fraction=_fraction(file_slice, end, reader),
                    rows=rows,
                    undeclared=undeclared,
                )
                row += rows.num_rows

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return a row of a file; a stream can only be read from its beginning."""
        with storage_errors(file.path, doing="read"), _opened(file) as stream:
            reader = _reader(stream, file, columns=())
            if not isinstance(reader, pa.ipc.RecordBatchFileReader):
                return None
            index = int(reader.num_record_batches * fraction)
            if index == reader.num_record_batches:
                return index << ROW_BITS
            num_rows = reader.get_batch(index).num_rows
            share = reader.num_record_batches * fraction - index
            return (index << ROW_BITS) + int(num_rows * share)

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples, or raise an error that names file, row and column."""
        return decode_tables(self._features, chunks, self.options, place=_place)


def _place(chunk: TableChunk, row: int) -> str:
    number = _rows_before(chunk.file_slice) + chunk.first_row + row + 1
    return f"{chunk.file_slice.file.path}: row {number}"


def _opened(file: DataFile) -> pa.NativeFile:
    if file.is_remote:
        return pa.PythonFile(file.open(in_order=False), "r")
    return pa.memory_map(file.path)


def _reader(
    stream: pa.NativeFile, file: DataFile, *, columns: Sequence[str] | None = None
) -> Reader:
    """Return a reader of all columns, or of the given ones (of one column if none is given)."""
    stream.seek(0)
    magic = stream.read(len(FILE_MAGIC))
    stream.seek(0)
    if magic.startswith(FEATHER_1_MAGIC):
        raise DataError(
            f"{file.path}: expected Arrow IPC or Feather version 2, got Feather version 1; "
            "write it again with pyarrow"
        )
    if not magic:
        raise DataError(f"{file.path}: the file is empty; expected Arrow IPC")
    open_it = pa.ipc.open_file if magic == FILE_MAGIC else pa.ipc.open_stream
    reader = open_it(stream)
    if columns is None or not reader.schema.names:
        return reader
    fields = [reader.schema.get_field_index(name) for name in columns] or [0]
    stream.seek(0)
    return open_it(stream, options=pa.ipc.IpcReadOptions(included_fields=fields))


def _batches(
    reader: Reader, *, begin: int, end: int | None
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Yield the rows between two positions, each batch with its begin and end."""
    for index, batch in _numbered(reader, first=begin >> ROW_BITS):
        first = index << ROW_BITS
        if end is not None and first >= end:
            return
        from_place = max(first, begin)
        to_place = first + (1 << ROW_BITS)
        rows = batch.slice(from_place - first)
        if end is not None and end < first + batch.num_rows:
            rows, to_place = rows.slice(0, end - from_place), end
        if rows.num_rows:
            yield from_place, to_place, rows


def _numbered(reader: Reader, *, first: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        for index in range(first, reader.num_record_batches):
            yield index, reader.get_batch(index)
        return
    for index, batch in enumerate(reader):
        if index >= first:
            yield index, batch


def _fraction(file_slice: FileSlice, place: int, reader: Reader) -> float:
    """Return how much of a slice lies before a position; 0 in a stream, whose end is unknown."""
    if not isinstance(reader, pa.ipc.RecordBatchFileReader):
        return 0.0
    end = reader.num_record_batches << ROW_BITS if file_slice.end is None else file_slice.end
    return (place - file_slice.begin) / max(1, end - file_slice.begin)


def _rows_before(file_slice: FileSlice) -> int:
    """Count the rows before a slice that begins in the middle of its file."""
    if file_slice.begin == 0:
        return 0
    with _opened(file_slice.file) as stream:
        reader = _reader(stream, file_slice.file, columns=())
        whole = range(file_slice.begin >> ROW_BITS)
        num_rows = sum(reader.get_batch(index).num_rows for index in whole)
    return int(num_rows) + file_slice.begin % (1 << ROW_BITS)
