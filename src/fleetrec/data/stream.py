"""Rows of files in order, cut into batches, not decoded yet."""

import dataclasses
from collections.abc import Generator, Iterator, Sequence

from fleetrec.core.cursor import Cursor
from fleetrec.core.partition import contiguous_block
from fleetrec.data.source import FileSlice, RowChunk, Source

# Rows per turn, if workers take turns in a file that cannot be cut.
TURN_ROWS = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RawBatch:
    """The rows of one batch; it may begin in one file and end in another."""

    chunks: tuple[RowChunk, ...]
    begin: Cursor
    end: Cursor
    progress: float


def raw_batches(
    source: Source, slices: Sequence[FileSlice], *, batch_size: int, start: Cursor
) -> Generator[RawBatch]:
    """Yield batches of ``batch_size`` rows from ``start`` on; the last one may be smaller.

    Batches that a source makes itself (``RowChunk.is_whole_batch``) stay as they are.
    """
    total_bytes = max(1, sum(file_slice.num_bytes for file_slice in slices))
    done_bytes = sum(file_slice.num_bytes for file_slice in slices[: start.file])
    partial = _PartialBatch(cursor=dataclasses.replace(start, skip=0))
    for index in range(start.file, len(slices)):
        file_slice = slices[index]
        cursor = partial.cursor if index == start.file else Cursor()
        offset = cursor.offset if cursor.row else file_slice.begin
        for read in _own_rows(file_slice, source.read(file_slice, offset=offset, row=cursor.row)):
            rest: RowChunk | None = read
            if read.is_whole_batch and partial.chunks:
                yield partial.flush()
            while rest is not None:
                if rest.is_whole_batch:
                    chunk, rest = rest, None
                else:
                    chunk, rest = rest.take(batch_size - partial.num_rows)
                partial.add(chunk, file=index)
                read_bytes = done_bytes + chunk.fraction * file_slice.num_bytes
                partial.progress = read_bytes / total_bytes
                if chunk.is_whole_batch or partial.num_rows == batch_size:
                    yield partial.flush()
        done_bytes += file_slice.num_bytes
    if partial.chunks:
        partial.progress = 1.0
        yield partial.flush()


def portion(raw: RawBatch, *, index: int, count: int) -> RawBatch:
    """Return one of ``count`` equal portions of the rows; the cursors stay."""
    own = contiguous_block(sum(chunk.num_rows for chunk in raw.chunks), index, count)
    chunks: list[RowChunk] = []
    first = 0
    for chunk in raw.chunks:
        begin, end = max(own.start - first, 0), min(own.stop - first, chunk.num_rows)
        first += chunk.num_rows
        if begin < end:
            rest = chunk.take(begin)[1] if begin else chunk
            assert rest is not None
            chunks.append(rest.take(end - begin)[0])
    return dataclasses.replace(raw, chunks=tuple(chunks))


class _PartialBatch:
    """The chunks of a batch that is not full yet."""

    def __init__(self, *, cursor: Cursor) -> None:
        self.cursor = cursor
        self.progress = 0.0
        self.num_rows = 0
        self.chunks: list[RowChunk] = []
        self._begin = cursor

    def add(self, chunk: RowChunk, *, file: int) -> None:
        num_rows = chunk.num_rows
        self.chunks.append(chunk)
        self.num_rows += num_rows
        self.cursor = Cursor(
            file=file,
            offset=chunk.end,
            row=chunk.first_row + num_rows,
            samples=self.cursor.samples + num_rows,
        )

    def flush(self) -> RawBatch:
        batch = RawBatch(
            chunks=tuple(self.chunks),
            begin=self._begin,
            end=self.cursor,
            progress=self.progress,
        )
        self.chunks, self.num_rows, self._begin = [], 0, self.cursor
        return batch


def _own_rows(file_slice: FileSlice, chunks: Iterator[RowChunk]) -> Iterator[RowChunk]:
    """Skip the rows of other workers' turns."""
    if file_slice.num_turns == 1:
        yield from chunks
        return
    for chunk in chunks:
        rest: RowChunk | None = chunk
        while rest is not None:
            if rest.is_whole_batch:
                taken, rest = rest, None
            else:
                taken, rest = rest.take(TURN_ROWS - rest.first_row % TURN_ROWS)
            if taken.first_row // TURN_ROWS % file_slice.num_turns == file_slice.turn:
                yield taken
