"""TFRecord files of tf.Example messages, read without TensorFlow."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from fleetrec._native import ExampleParser, RecordError, cut_records, find_record
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.files import DataFile, storage_errors
from fleetrec.data.parsed import to_block, widths_of
from fleetrec.data.source import BadRowError, FileSlice, RowChunk, Source
from fleetrec.data.text import decompressed

BLOCK_BYTES = 1 << 22
SEARCH_BYTES = 1 << 20
MAX_RECORD_BYTES = 1 << 28
ALL = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordChunk(RowChunk):
    """Whole records whose lengths, but not contents, are checked."""

    data: memoryview
    num_records: int
    begin_fraction: float

    @property
    def num_rows(self) -> int:
        """Return the number of records."""
        return self.num_records

    @property
    def begin(self) -> int:
        """Return where the first record begins in the (decompressed) file."""
        return self.end - len(self.data)

    def take(self, max_rows: int) -> tuple[Self, Self | None]:
        """Cut after at most ``max_rows`` records."""
        if max_rows >= self.num_records:
            return self, None
        at, num_records = cut_records(self.data, 0, max_rows)
        share = at / len(self.data)
        fraction = self.begin_fraction + (self.fraction - self.begin_fraction) * share
        head = dataclasses.replace(
            self,
            data=self.data[:at],
            num_records=num_records,
            end=self.begin + at,
            fraction=fraction,
        )
        tail = dataclasses.replace(
            self,
            data=self.data[at:],
            num_records=self.num_records - num_records,
            first_row=self.first_row + num_records,
            begin_fraction=fraction,
        )
        return head, tail


class TfRecord(Source, name="tfrecord"):
    """Splits, checks and parses records in native code."""

    suffixes: ClassVar[tuple[str, ...]] = (".tfrecord", ".tfrecords", ".tfr")
    takes_streams = False

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._parser = ExampleParser(options.sparse, widths_of(options), options.padding)

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[RecordChunk]:
        """Yield whole records."""
        before = 0.0
        for data, num_records, begin, num_read in _blocks(file_slice, offset=offset):
            fraction = min(1.0, num_read / max(1, file_slice.num_bytes))
            yield RecordChunk(
                file_slice=file_slice,
                first_row=row,
                end=begin + len(data),
                begin_fraction=before,
                fraction=fraction,
                data=memoryview(data),
                num_records=num_records,
            )
            row, before = row + num_records, fraction

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the first record after a fraction of the bytes; not in compressed files."""
        if file.is_gzip:
            return None
        wanted = int(file.num_bytes * fraction)
        if wanted == 0:
            return 0
        data = b""
        with storage_errors(file.path, doing="read"), file.open() as stream:
            stream.seek(wanted)
            while buffer := stream.read(SEARCH_BYTES):
                data += buffer
                found = find_record(data, 0)
                if found is not None:
                    return wanted + found
        return file.num_bytes

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples, or raise an error that names file, record and byte."""
        records = [chunk for chunk in chunks if isinstance(chunk, RecordChunk)]
        try:
            parsed = self._parser.parse([chunk.data for chunk in records])
        except RecordError as error:
            chunk = records[error.segment]
            row = sum(other.num_rows for other in records[: error.segment]) + error.record
            number = _records_before(chunk.file_slice) + chunk.first_row + error.record + 1
            raise BadRowError(
                f"{chunk.file_slice.file.path}: record {number} at byte "
                f"{chunk.begin + error.offset}: {error.reason}",
                row=row,
            ) from None
        return to_block(parsed, self.options)


def _records_before(file_slice: FileSlice) -> int:
    """Count the records before a slice that begins in the middle of its file."""
    before = FileSlice(file=file_slice.file, end=file_slice.begin)
    if file_slice.begin == 0:
        return 0
    return sum(num_records for _, num_records, _, _ in _blocks(before, offset=0))


def _blocks(file_slice: FileSlice, *, offset: int) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield whole records, how many, where they begin, and how many stored bytes were read."""
    file, left = file_slice.file, None if file_slice.end is None else file_slice.end - offset
    rest, begin = b"", offset
    with storage_errors(file.path, doing="read"), file.open() as raw:
        stream = decompressed(file, raw)
        stream.seek(offset)
        while buffer := stream.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
            left = None if left is None else left - len(buffer)
            rest += buffer
            end, num_records = _cut(file, rest, begin)
            if num_records:
                num_read = raw.tell() - (0 if file.is_gzip else file_slice.begin)
                yield rest[:end], num_records, begin, num_read
                rest, begin = rest[end:], begin + end
    if rest:
        raise DataError(
            f"{file.path}: the record at byte {begin} is cut off: the file ends {len(rest)} bytes "
            "after its beginning"
        )


def _cut(file: DataFile, data: bytes, begin: int) -> tuple[int, int]:
    try:
        end, num_records = cut_records(data, 0, ALL)
    except RecordError as error:
        raise DataError(
            f"{file.path}: the record at byte {begin + error.offset} is damaged: {error.reason}; "
            "is it a TFRecord file?"
        ) from None
    if num_records == 0 and len(data) > MAX_RECORD_BYTES:
        raise DataError(
            f"{file.path}: the record at byte {begin} is longer than {MAX_RECORD_BYTES >> 20} MiB"
        )
    return end, num_records
