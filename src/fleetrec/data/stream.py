"""Rows of files in order, cut into batches, not yet understood."""

import dataclasses
from collections.abc import Generator, Iterator, Sequence

from fleetrec.core.cursor import Cursor
from fleetrec.core.partition import contiguous_block
from fleetrec.data.source import Part, Piece, Source

# Where workers take turns in a file that cannot be cut, a turn has so many rows.
TURN_ROWS = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RawBatch:
    """The rows of one batch; it may begin in one file and end in another."""

    pieces: tuple[Piece, ...]
    begin: Cursor
    end: Cursor
    progress: float


def raw_batches(
    source: Source, parts: Sequence[Part], *, batch_size: int, start: Cursor
) -> Generator[RawBatch]:
    """Yield batches of ``batch_size`` rows from ``start`` on; the last one may be smaller.

    Batches that a source made itself (``Piece.is_whole_batch``) stay as they are.
    """
    total_bytes = max(1, sum(part.num_bytes for part in parts))
    done_bytes = sum(part.num_bytes for part in parts[: start.file])
    gathered = _Gathered(cursor=dataclasses.replace(start, skip=0))
    for index in range(start.file, len(parts)):
        part = parts[index]
        cursor = gathered.cursor if index == start.file else Cursor()
        offset = cursor.offset if cursor.row else part.begin
        for read in _own_rows(part, source.read(part, offset=offset, row=cursor.row)):
            rest: Piece | None = read
            if read.is_whole_batch and gathered.pieces:
                yield gathered.flush()
            while rest is not None:
                if rest.is_whole_batch:
                    piece, rest = rest, None
                else:
                    piece, rest = rest.take(batch_size - gathered.num_rows)
                gathered.add(piece, file=index)
                gathered.progress = (done_bytes + piece.fraction * part.num_bytes) / total_bytes
                if piece.is_whole_batch or gathered.num_rows == batch_size:
                    yield gathered.flush()
        done_bytes += part.num_bytes
    if gathered.pieces:
        gathered.progress = 1.0
        yield gathered.flush()


def portion(raw: RawBatch, *, index: int, count: int) -> RawBatch:
    """Return one of ``count`` equal portions of the rows; it begins and ends where all do."""
    own = contiguous_block(sum(piece.num_rows for piece in raw.pieces), index, count)
    pieces: list[Piece] = []
    first = 0
    for piece in raw.pieces:
        begin, end = max(own.start - first, 0), min(own.stop - first, piece.num_rows)
        first += piece.num_rows
        if begin < end:
            rest = piece.take(begin)[1] if begin else piece
            assert rest is not None
            pieces.append(rest.take(end - begin)[0])
    return dataclasses.replace(raw, pieces=tuple(pieces))


class _Gathered:
    """The pieces of a batch that is not full yet."""

    def __init__(self, *, cursor: Cursor) -> None:
        self.cursor = cursor
        self.progress = 0.0
        self.num_rows = 0
        self.pieces: list[Piece] = []
        self._begin = cursor

    def add(self, piece: Piece, *, file: int) -> None:
        num_rows = piece.num_rows
        self.pieces.append(piece)
        self.num_rows += num_rows
        self.cursor = Cursor(
            file=file,
            offset=piece.end,
            row=piece.first_row + num_rows,
            samples=self.cursor.samples + num_rows,
        )

    def flush(self) -> RawBatch:
        batch = RawBatch(
            pieces=tuple(self.pieces),
            begin=self._begin,
            end=self.cursor,
            progress=self.progress,
        )
        self.pieces, self.num_rows, self._begin = [], 0, self.cursor
        return batch


def _own_rows(part: Part, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Leave out the rows that are other workers' turns."""
    if part.num_turns == 1:
        yield from pieces
        return
    for piece in pieces:
        rest: Piece | None = piece
        while rest is not None:
            if rest.is_whole_batch:
                taken, rest = rest, None
            else:
                taken, rest = rest.take(TURN_ROWS - rest.first_row % TURN_ROWS)
            if taken.first_row // TURN_ROWS % part.num_turns == part.turn:
                yield taken
