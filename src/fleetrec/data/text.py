"""Text files as chunks of whole lines."""

import dataclasses
import functools
import gzip
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Self, cast

from fleetrec._native import cut_lines
from fleetrec.core.errors import DataError
from fleetrec.data.files import DataFile, storage_errors
from fleetrec.data.source import FileSlice, RowChunk

BLOCK_BYTES = 1 << 22
HEAD_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 28
ALL = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextChunk(RowChunk):
    """Whole lines; the last one may lack its newline."""

    text: memoryview
    begin_fraction: float = 0.0
    _num_lines: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the text for another process: views cannot be pickled."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["text"] = bytes(self.text)
        return functools.partial(_from_copy, type(self), fields), ()

    @property
    def num_rows(self) -> int:
        """Return the number of lines."""
        return _count_lines(self.text) if self._num_lines is None else self._num_lines

    def take(self, max_rows: int) -> tuple[Self, Self | None]:
        """Cut after at most ``max_rows`` lines."""
        all_lines = self.num_rows
        if all_lines <= max_rows:
            return dataclasses.replace(self, _num_lines=all_lines), None
        at, num_lines = cut_lines(self.text, 0, max_rows)
        share = at / len(self.text)
        fraction = self.begin_fraction + (self.fraction - self.begin_fraction) * share
        head = dataclasses.replace(
            self,
            text=self.text[:at],
            end=self.end - (len(self.text) - at),
            fraction=fraction,
            _num_lines=num_lines,
        )
        tail = dataclasses.replace(
            self,
            text=self.text[at:],
            first_row=self.first_row + num_lines,
            begin_fraction=fraction,
            _num_lines=all_lines - num_lines,
        )
        return head, tail


def _count_lines(text: memoryview) -> int:
    at_newline = not text or text[-1] == ord("\n")
    return cut_lines(text, 0, ALL)[1] + (not at_newline)


def _from_copy(kind: type[TextChunk], fields: dict[str, Any]) -> TextChunk:
    return kind(**{**fields, "text": memoryview(fields["text"])})


def read_text(file_slice: FileSlice, *, offset: int, row: int) -> Iterator[TextChunk]:
    """Yield the lines that begin between ``offset`` and the end of the slice."""
    return chunks_of(file_slice, _read_buffers(file_slice, offset=offset), offset=offset, row=row)


def chunks_of(
    file_slice: FileSlice, buffers: Iterator[tuple[bytes, int]], *, offset: int, row: int
) -> Iterator[TextChunk]:
    """Yield whole lines of text that comes in buffers, each with the stored bytes read so far."""
    end, before = offset, 0.0
    for text, num_read in _whole_lines(file_slice, buffers):
        end += len(text)
        fraction = min(1.0, num_read / max(1, file_slice.num_bytes))
        chunk = TextChunk(
            file_slice=file_slice,
            first_row=row,
            end=end,
            begin_fraction=before,
            fraction=fraction,
            text=text,
            _num_lines=_count_lines(text),
        )
        yield chunk
        row, before = row + chunk.num_rows, fraction


def cut_text(file: DataFile, fraction: float) -> int | None:
    """Return the first line that begins after a fraction of the bytes.

    None for compressed files and streams, whose lines are not at known places.
    """
    if file.is_gzip or file.is_stream:
        return None
    wanted = int(file.num_bytes * fraction)
    if wanted == 0:
        return 0
    with storage_errors(file.path, doing="read"), file.open() as stream:
        stream.seek(wanted - 1)
        while buffer := stream.read(1 << 16):
            at = buffer.find(b"\n")
            if at >= 0:
                return stream.tell() - len(buffer) + at + 1
    return file.num_bytes


def decompressed(file: DataFile, raw: BinaryIO) -> BinaryIO:
    """Return the text of an open file."""
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if file.is_gzip else raw


def first_line(file: DataFile) -> bytes:
    """Return the first line with its newline; nothing if the file is empty."""
    text = b""
    with storage_errors(file.path, doing="read"), file.open(in_order=False) as raw:
        stream = decompressed(file, raw)
        while b"\n" not in text and (buffer := stream.read(HEAD_BYTES)):
            text += buffer
            _check_line_length(file, text)
    return text[: text.find(b"\n") + 1] or text


def line_of(chunks: Sequence[RowChunk], row: int) -> tuple[DataFile, int]:
    """Return file and line number (from 1) of a row counted through all chunks."""
    for chunk in chunks:
        if row < chunk.num_rows:
            line = _lines_before(chunk.file_slice) + chunk.first_row + row + 1
            return chunk.file_slice.file, line
        row -= chunk.num_rows
    raise IndexError(row)


def _lines_before(file_slice: FileSlice) -> int:
    """Count the lines before a slice that begins in the middle of its file."""
    if file_slice.begin == 0:
        return 0
    num_lines = 0
    with file_slice.file.open() as stream:
        while stream.tell() < file_slice.begin:
            left = file_slice.begin - stream.tell()
            num_lines += stream.read(min(BLOCK_BYTES, left)).count(b"\n")
    return num_lines


def _read_buffers(file_slice: FileSlice, *, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield some megabytes at a time, and how many stored bytes of the slice were read so far."""
    file, left = file_slice.file, None if file_slice.end is None else file_slice.end - offset
    with storage_errors(file.path, doing="read"), file.open() as raw:
        stream = decompressed(file, raw)
        stream.seek(offset)
        while buffer := stream.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
            left = None if left is None else left - len(buffer)
            yield buffer, raw.tell() - (0 if file.is_gzip else file_slice.begin)


def _whole_lines(
    file_slice: FileSlice, buffers: Iterator[tuple[bytes, int]]
) -> Iterator[tuple[memoryview, int]]:
    """Yield buffers without their cut lines, uncopied, and each cut line by itself."""
    rest = b""
    for buffer, num_read in buffers:
        end = buffer.rfind(b"\n") + 1
        begin = buffer.find(b"\n") + 1 if rest and end else 0
        if begin:
            yield memoryview(rest + buffer[:begin]), num_read
            rest = b""
        if begin < end:
            yield memoryview(buffer)[begin:end], num_read
        rest += buffer[end:]
        _check_line_length(file_slice.file, rest)
    if rest:
        yield memoryview(rest), file_slice.num_bytes


def _check_line_length(file: DataFile, line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise DataError(
            f"{file.path}: a line is longer than {MAX_LINE_BYTES >> 20} MiB; is it a text file?"
        )
