"""Reads rows of files with named columns, all columns or some, without torch."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from fleetrec.config.job import TextTableOptions
from fleetrec.core.errors import DataError
from fleetrec.data.files import DataFile, storage_errors

FORMATS = ("csv", "parquet", "arrow")
_SUFFIXES = (
    (".csv", "csv"),
    (".parquet", "parquet"),
    (".pq", "parquet"),
    (".arrow", "arrow"),
    (".arrows", "arrow"),
    (".feather", "arrow"),
    (".ipc", "arrow"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnFiles:
    """Files that are read in order.

    Args:
        files: The files.
        format: csv, parquet or arrow.
        text_table: How lines of a CSV are cut into cells, which stay text.
    """

    files: Sequence[DataFile]
    format: str
    text_table: TextTableOptions = dataclasses.field(default_factory=TextTableOptions)

    def batches(
        self, *, batch_size: int, skip_rows: int = 0
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield rows after the first ``skip_rows``, and the share of the data that was read.

        A batch never spans two files, whose columns may differ.
        """
        total_bytes = max(1, sum(file.num_bytes for file in self.files))
        done_bytes = 0
        for file in self.files:
            with storage_errors(file.path, doing="read"), contextlib.ExitStack() as stack:
                try:
                    for rows, fraction in self._read(file, batch_size, stack):
                        if rows.num_rows <= skip_rows:
                            skip_rows -= rows.num_rows
                            continue
                        rest, skip_rows = rows.slice(skip_rows), 0
                        share = (done_bytes + fraction * file.num_bytes) / total_bytes
                        yield rest, min(share, 1.0)
                except pa.ArrowException as error:
                    raise DataError(f"{file.path}: cannot be read: {error}") from error
            done_bytes += file.num_bytes

    def _read(
        self, file: DataFile, batch_size: int, stack: contextlib.ExitStack
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        opened = stack.enter_context(file.open(in_order=self.format == "csv"))
        match self.format:
            case "csv":
                yield from self._read_csv(file, opened, batch_size)
            case "parquet":
                stored = pa.parquet.ParquetFile(opened)
                num_rows, total = 0, max(1, stored.metadata.num_rows)
                for rows in stored.iter_batches(batch_size=batch_size):
                    num_rows += rows.num_rows
                    yield rows, num_rows / total
            case _:
                reader = _arrow_reader(opened)
                for number, (rows, count) in enumerate(reader, 1):
                    for begin in range(0, rows.num_rows, batch_size):
                        yield rows.slice(begin, batch_size), number / count

    def _read_csv(
        self, file: DataFile, opened: object, batch_size: int
    ) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield cells of text; empty lines are left out."""
        table = self.text_table
        parse = pa.csv.ParseOptions(
            delimiter=table.separator or ",", quote_char=table.quote or False
        )
        names = list(table.columns)
        if not names:
            with file.open() as first:
                head = pa.csv.open_csv(first, parse_options=parse)
                names = head.schema.names
        reader = pa.csv.open_csv(
            opened,
            read_options=pa.csv.ReadOptions(column_names=table.columns or None),
            parse_options=parse,
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
        num_bytes = 0
        for rows in reader:
            for begin in range(0, rows.num_rows, batch_size):
                part = rows.slice(begin, batch_size)
                num_bytes += part.nbytes
                yield part, min(1.0, num_bytes / max(1, file.num_bytes))


def format_of(files: Sequence[DataFile]) -> str | None:
    """Return the format by the suffix of the first file; None: it has no columns."""
    name = files[0].name.lower().removesuffix(".gz") if files else ""
    return next((kind for suffix, kind in _SUFFIXES if name.endswith(suffix)), None)


def _arrow_reader(opened: object) -> Iterator[tuple[pa.RecordBatch, int]]:
    try:
        stored = pa.ipc.open_file(opened)
    except pa.ArrowInvalid:  # a stream of record batches
        opened.seek(0)  # type: ignore[attr-defined]
        stream = pa.ipc.open_stream(opened)
        yield from ((rows, 1) for rows in stream)
        return
    count = stored.num_record_batches
    yield from ((stored.get_batch(number), count) for number in range(count))
