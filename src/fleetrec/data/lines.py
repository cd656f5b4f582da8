"""Cut text files into batches of lines, without looking into the lines."""

import dataclasses
import gzip
import zlib
from collections.abc import Generator, Iterator, Sequence
from typing import BinaryIO, cast

from fleetrec._native import cut_lines
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.data.files import DataFile

BLOCK_BYTES = 1 << 22
MAX_LINE_BYTES = 1 << 28


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Whole lines of one file."""

    file: DataFile
    first_line: int
    text: memoryview


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LineBatch:
    """The lines of one batch; it may begin in one file and end in another."""

    segments: tuple[Segment, ...]
    cursor: Cursor
    progress: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Some megabytes of whole lines."""

    text: bytes
    begin: int  # on disk, where compressed files are shorter
    end: int

    def bytes_at(self, offset: int) -> float:
        """Return how much of the file on disk lies before an offset of the text."""
        return self.begin + (self.end - self.begin) * offset / len(self.text)


def line_batches(
    files: Sequence[DataFile], *, batch_size: int, start: Cursor
) -> Generator[LineBatch]:
    """Yield batches of ``batch_size`` lines from ``start`` on; the last one may be smaller."""
    total_bytes = max(1, sum(file.num_bytes for file in files))
    done_bytes = sum(file.num_bytes for file in files[: start.file])
    segments: list[Segment] = []
    cursor, progress, missing = start, 0.0, batch_size
    for index in range(start.file, len(files)):
        file = files[index]
        if index != start.file:
            cursor = Cursor(file=index, samples=cursor.samples)
        for block in _blocks(file, offset=cursor.offset):
            at = 0
            while at < len(block.text):
                end, lines = cut_lines(block.text, at, missing)
                if end == len(block.text) and block.text[-1:] != b"\n":
                    lines += 1  # the last line of a file may lack its newline
                text = memoryview(block.text)[at:end]
                segments.append(Segment(file=file, first_line=cursor.line, text=text))
                cursor = Cursor(
                    file=index,
                    offset=cursor.offset + end - at,
                    line=cursor.line + lines,
                    samples=cursor.samples + lines,
                )
                at, missing = end, missing - lines
                progress = (done_bytes + block.bytes_at(end)) / total_bytes
                if missing == 0:
                    yield LineBatch(segments=tuple(segments), cursor=cursor, progress=progress)
                    segments, missing = [], batch_size
        done_bytes += file.num_bytes
    if segments:
        yield LineBatch(segments=tuple(segments), cursor=cursor, progress=1.0)


def _blocks(file: DataFile, *, offset: int) -> Iterator[_Block]:
    """Read whole lines, some megabytes at a time, so that memory does not grow with the file."""
    try:
        with file.path.open("rb") as raw:
            is_gzip = file.path.suffix.lower() == ".gz"
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if is_gzip else raw
            stream.seek(offset)
            begin, rest = raw.tell(), b""
            while chunk := stream.read(BLOCK_BYTES):
                end = chunk.rfind(b"\n") + 1
                if end == 0:
                    rest += chunk
                    _check_line_length(file, rest)
                    continue
                yield _Block(text=rest + chunk[:end], begin=begin, end=raw.tell())
                begin, rest = raw.tell(), chunk[end:]
            if rest:
                yield _Block(text=rest, begin=begin, end=raw.tell())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file.path}: cannot be read: {error}") from error


def _check_line_length(file: DataFile, line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise DataError(
            f"{file.path}: a line is longer than {MAX_LINE_BYTES >> 20} MiB; is it a text file?"
        )
