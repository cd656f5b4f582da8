"""A data set that is held in memory: read once, shuffled as a whole."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from fleetrec.core.batch import Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.data.block import Block, join, select
from fleetrec.data.decode import Decoded


class Exchange(Protocol):
    """Exchanges samples between workers."""

    index: int
    count: int

    def all_to_all(self, blocks: Sequence[Block]) -> list[Block]:
        """Send block i to worker i; returns what all workers sent here, in their order."""
        ...


class MemoryRows:
    """All samples of one worker, in the order of the next pass."""

    def __init__(self, blocks: Sequence[Block], *, inputs: Inputs) -> None:
        self._inputs = inputs
        self._blocks = [block for block in blocks if block.num_samples]
        self._order = np.arange(sum(block.num_samples for block in self._blocks))

    @classmethod
    def gather(cls, decoded: Iterable[Decoded], *, inputs: Inputs) -> Self:
        """Collect all samples."""
        return cls([item.block for item in decoded], inputs=inputs)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def num_bytes(self) -> int:
        """Return the memory that the samples take."""
        return sum(block.num_bytes for block in self._blocks)

    def shuffle(self, *, seed: int, epoch: int) -> None:
        """Put the samples into the order of one epoch; the same seed gives the same order."""
        self._order = np.random.default_rng([seed, epoch]).permutation(len(self._order))

    def shuffle_globally(self, exchange: Exchange, *, seed: int, epoch: int) -> None:
        """Redistribute the samples of all workers at random, then shuffle; collective."""
        rng = np.random.default_rng([seed, epoch, exchange.index])
        target = rng.integers(0, exchange.count, len(self._order))
        blocks = [self._select(np.flatnonzero(target == i)) for i in range(exchange.count)]
        received = [block for block in exchange.all_to_all(blocks) if block.num_samples]
        self._blocks = [join(received)] if received else []
        self._order = np.arange(sum(block.num_samples for block in received))
        self.shuffle(seed=seed, epoch=epoch)

    def release(self) -> None:
        """Free the memory."""
        self._blocks, self._order = [], np.arange(0)

    def batches(self, *, batch_size: int, start: Cursor) -> Iterator[Decoded]:
        """Yield the samples from ``start`` on; the last batch may be smaller."""
        for first in range(start.samples, len(self), batch_size):
            rows = self._order[first : first + batch_size]
            end = Cursor(samples=first + len(rows))
            yield Decoded(
                block=self._select(rows),
                begin=Cursor(samples=first),
                end=end,
                progress=end.samples / len(self),
            )

    def _select(self, rows: npt.NDArray[np.int64]) -> Block:
        if not self._blocks or not len(rows):
            return Block.empty(self._inputs)
        return select(self._blocks, rows)
