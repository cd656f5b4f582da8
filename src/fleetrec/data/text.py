"""Text files as pieces of whole lines, without looking into the lines."""

import dataclasses
import functools
import gzip
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Self, cast

from fleetrec._native import cut_lines
from fleetrec.core.errors import DataError
from fleetrec.data.files import DataFile, storage_errors
from fleetrec.data.source import Part, Piece

BLOCK_BYTES = 1 << 22
HEAD_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 28
ALL = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece(Piece):
    """Whole lines; the last one may lack its newline."""

    text: memoryview
    begin_fraction: float = 0.0
    _num_lines: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the text for another process: views cannot travel."""
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


def _from_copy(kind: type[TextPiece], fields: dict[str, Any]) -> TextPiece:
    return kind(**{**fields, "text": memoryview(fields["text"])})


def read_text(part: Part, *, offset: int, row: int) -> Iterator[TextPiece]:
    """Yield the lines that begin between ``offset`` and the end of the part."""
    return pieces_of(part, _chunks(part, offset=offset), offset=offset, row=row)


def pieces_of(
    part: Part, chunks: Iterator[tuple[bytes, int]], *, offset: int, row: int
) -> Iterator[TextPiece]:
    """Yield whole lines of text that comes in chunks, each with the stored bytes read so far."""
    end, before = offset, 0.0
    for text, num_read in _whole_lines(part, chunks):
        end += len(text)
        fraction = min(1.0, num_read / max(1, part.num_bytes))
        piece = TextPiece(
            part=part,
            first_row=row,
            end=end,
            begin_fraction=before,
            fraction=fraction,
            text=text,
            _num_lines=_count_lines(text),
        )
        yield piece
        row, before = row + piece.num_rows, fraction


def cut_text(file: DataFile, fraction: float) -> int | None:
    """Return the first line that begins behind a fraction of the bytes; not in compressed files."""
    if file.is_gzip:
        return None
    wanted = int(file.num_bytes * fraction)
    if wanted == 0:
        return 0
    with storage_errors(file.path, doing="read"), file.open() as stream:
        stream.seek(wanted - 1)
        while chunk := stream.read(1 << 16):
            at = chunk.find(b"\n")
            if at >= 0:
                return stream.tell() - len(chunk) + at + 1
    return file.num_bytes


def decompressed(file: DataFile, raw: BinaryIO) -> BinaryIO:
    """Return the text of an open file."""
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if file.is_gzip else raw


def first_line(file: DataFile) -> bytes:
    """Return the first line with its newline; nothing if the file is empty."""
    text = b""
    with storage_errors(file.path, doing="read"), file.open(in_order=False) as raw:
        stream = decompressed(file, raw)
        while b"\n" not in text and (chunk := stream.read(HEAD_BYTES)):
            text += chunk
            _check_line_length(file, text)
    return text[: text.find(b"\n") + 1] or text


def line_of(pieces: Sequence[Piece], row: int) -> tuple[DataFile, int]:
    """Return file and line number (from 1) of a row counted through all pieces."""
    for piece in pieces:
        if row < piece.num_rows:
            return piece.part.file, _lines_before(piece.part) + piece.first_row + row + 1
        row -= piece.num_rows
    raise IndexError(row)


def _lines_before(part: Part) -> int:
    """Count the lines before a part that begins in the middle of its file."""
    if part.begin == 0:
        return 0
    num_lines = 0
    with part.file.open() as stream:
        while stream.tell() < part.begin:
            left = part.begin - stream.tell()
            num_lines += stream.read(min(BLOCK_BYTES, left)).count(b"\n")
    return num_lines


def _chunks(part: Part, *, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield some megabytes at a time, and how many stored bytes of the part were read so far."""
    file, left = part.file, None if part.end is None else part.end - offset
    with storage_errors(file.path, doing="read"), file.open() as raw:
        stream = decompressed(file, raw)
        stream.seek(offset)
        while chunk := stream.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
            left = None if left is None else left - len(chunk)
            yield chunk, raw.tell() - (0 if file.is_gzip else part.begin)


def _whole_lines(
    part: Part, chunks: Iterator[tuple[bytes, int]]
) -> Iterator[tuple[memoryview, int]]:
    """Yield chunks without their cut lines, uncopied, and those lines by themselves."""
    rest = b""
    for chunk, num_read in chunks:
        end = chunk.rfind(b"\n") + 1
        begin = chunk.find(b"\n") + 1 if rest and end else 0
        if begin:
            yield memoryview(rest + chunk[:begin]), num_read
            rest = b""
        if begin < end:
            yield memoryview(chunk)[begin:end], num_read
        rest += chunk[end:]
        _check_line_length(part.file, rest)
    if rest:
        yield memoryview(rest), part.num_bytes


def _check_line_length(file: DataFile, line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise DataError(
            f"{file.path}: a line is longer than {MAX_LINE_BYTES >> 20} MiB; is it a text file?"
        )
