"""Parquet files, read row group by row group."""

import contextlib
from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet

from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.job import DatasetOptions
from fleetrec.data.block import Block
from fleetrec.data.columns import TableChunk, decode_tables
from fleetrec.data.files import DataFile, storage_errors
from fleetrec.data.prefetch import Background
from fleetrec.data.source import FileSlice, RowChunk, Source
from fleetrec.features.feature_set import FeatureSet

MAX_CHUNK_ROWS = 1 << 15
CHUNK_BYTES = 1 << 25  # approximate, when decoded


class Parquet(Source, name="parquet"):
    """Reads the columns that are declared, as they are stored. A position is the index of a row."""

    suffixes = (".parquet", ".pq")
    takes_streams = False
    applies_id_rules = True

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._features = FeatureSet(dataset_features(options))

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[TableChunk]:
        """Yield the rows of row groups; pyarrow decodes the columns on all cores."""
        with storage_errors(file_slice.file.path, doing="read"), _opened(file_slice.file) as file:
            schema = file.schema_arrow
            self._features.check_schema(schema, where=file_slice.file.path)
            needed, undeclared = self._features.split_columns(schema.names)
            end = file.metadata.num_rows if file_slice.end is None else file_slice.end
            batches = _batches(file, needed, begin=offset, end=end)
            # A chunk makes many batches: the next one is read while these are decoded.
            with Background(batches, num_ahead=1, name="parquet") as ahead:
                for begin, rows in ahead:
                    yield TableChunk(
                        file_slice=file_slice,
                        first_row=row,
                        begin=begin,
                        end=begin + rows.num_rows,
                        begin_fraction=(begin - file_slice.begin) / (end - file_slice.begin),
                        fraction=(begin + rows.num_rows - file_slice.begin)
                        / (end - file_slice.begin),
                        rows=rows,
                        undeclared=undeclared,
                    )
                    row += rows.num_rows

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the number of a row."""
        with storage_errors(file.path, doing="read"), _opened(file) as opened:
            return int(opened.metadata.num_rows * fraction)

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples, or raise an error that names file, row and column."""
        return decode_tables(self._features, chunks, self.options, place=_place)


def _place(chunk: TableChunk, row: int) -> str:
    return f"{chunk.file_slice.file.path}: row {chunk.begin + row + 1}"


@contextlib.contextmanager
def _opened(file: DataFile) -> Iterator[pa.parquet.ParquetFile]:
    """Open a file; at a URL, only the needed byte ranges are fetched."""
    if not file.is_remote:
        with pa.parquet.ParquetFile(file.path) as opened:
            yield opened
        return
    with file.open(in_order=False) as raw:
        yield pa.parquet.ParquetFile(raw, pre_buffer=True)


def _batches(
    file: pa.parquet.ParquetFile, columns: Sequence[str], *, begin: int, end: int
) -> Generator[tuple[int, pa.RecordBatch]]:
    """Yield rows ``begin`` to ``end``, each batch with the number of its first row."""
    at = 0
    for group in range(file.metadata.num_row_groups):
        num_rows = file.metadata.row_group(group).num_rows
        if at + num_rows <= begin or at >= end:
            at += num_rows
            continue
        for rows in file.iter_batches(
            batch_size=_chunk_rows(file, group), row_groups=[group], columns=columns
        ):
            skip = max(0, begin - at)
            kept = rows.slice(skip, max(0, end - at - skip))
            if kept.num_rows:
                yield at + skip, kept
            at += rows.num_rows


def _chunk_rows(file: pa.parquet.ParquetFile, group: int) -> int:
    """Return the number of rows of a chunk."""
    metadata = file.metadata.row_group(group)
    row_bytes = max(1, int(metadata.total_byte_size) // max(1, int(metadata.num_rows)))
    return max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // row_bytes))
