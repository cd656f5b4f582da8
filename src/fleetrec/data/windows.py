"""Shuffle samples within windows and cut them into full batches."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fleetrec.core.cursor import Cursor
from fleetrec.data.block import Block, add_counts, select
from fleetrec.data.decode import Decoded


@dataclasses.dataclass(kw_only=True)
class _Window:
    """Neighbouring samples in the order in which they are delivered."""

    begin: Cursor
    end: Cursor
    blocks: list[Block]
    order: npt.NDArray[np.int64]
    progress: float
    noticed: tuple[Decoded, ...]  # their counts and faults go with the next batch
    taken: int = 0

    @property
    def num_left(self) -> int:
        return len(self.order) - self.taken


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """Delivers batches of ``batch_size`` samples out of windows of ``num_rows`` or a few more.

    The order within a window is a pure function of ``seed``, ``epoch`` and the position where
    the window begins, so reading can be resumed in the middle of one.
    """

    batch_size: int
    num_rows: int
    seed: int
    epoch: int

    def batches(self, decoded: Iterator[Decoded], *, start: Cursor) -> Iterator[Decoded]:
        """Yield full batches; ``decoded`` begins where the first window does."""
        samples, skip = start.samples, start.skip
        waiting: list[_Window] = []
        num_waiting = 0
        for window in self._windows(decoded):
            window.taken = min(skip, len(window.order))
            skip = 0
            waiting.append(window)
            num_waiting += window.num_left
            while num_waiting >= self.batch_size:
                samples, num_waiting = samples + self.batch_size, num_waiting - self.batch_size
                yield self._batch(waiting, self.batch_size, samples=samples)
        if num_waiting:
            yield self._batch(waiting, num_waiting, samples=samples + num_waiting)

    def _windows(self, decoded: Iterator[Decoded]) -> Iterator[_Window]:
        parts: list[Decoded] = []
        num_rows = 0
        for part in decoded:
            parts.append(part)
            num_rows += part.block.num_samples
            if num_rows >= max(1, self.num_rows):
                yield self._window(parts, num_rows)
                parts, num_rows = [], 0
        if parts:
            yield self._window(parts, num_rows)

    def _window(self, parts: list[Decoded], num_rows: int) -> _Window:
        begin = parts[0].begin
        order = np.arange(num_rows)
        if self.num_rows:
            place = (begin.file, begin.row, begin.turn, *(r.row for r in begin.readers))
            order = np.random.default_rng([self.seed, self.epoch, *place]).permutation(num_rows)
        return _Window(
            begin=begin,
            end=parts[-1].end,
            blocks=[part.block for part in parts],
            order=order,
            progress=parts[-1].progress,
            noticed=tuple(parts),
        )

    def _batch(self, waiting: list[_Window], num_rows: int, *, samples: int) -> Decoded:
        """Take samples from the first windows and drop windows that are empty."""
        begin = _cursor(waiting[0], samples - num_rows)
        blocks: list[Block] = []
        rows: list[npt.NDArray[np.int64]] = []
        noticed: list[Decoded] = []
        first = 0
        while num_rows:
            window = waiting[0]
            noticed += window.noticed
            window.noticed = ()
            taken = min(num_rows, window.num_left)
            rows.append(first + window.order[window.taken : window.taken + taken])
            blocks += window.blocks
            first += len(window.order)
            window.taken += taken
            num_rows -= taken
            last = window
            if not window.num_left:
                waiting.pop(0)
        block = select(blocks, np.concatenate(rows))
        if noticed:
            counts = add_counts([part.block.counts for part in noticed])
            block = dataclasses.replace(block, counts=counts)
        return Decoded(
            block=block,
            faults=tuple(fault for part in noticed for fault in part.faults),
            begin=begin,
            end=_cursor(last, samples),
            progress=last.progress,
        )


def _cursor(window: _Window, samples: int) -> Cursor:
    """Return the position after the samples that were taken from a window."""
    if window.num_left:
        return dataclasses.replace(window.begin, samples=samples, skip=window.taken)
    return dataclasses.replace(window.end, samples=samples)
