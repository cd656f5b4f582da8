"""Lines of sessions: item ids, separated by blanks."""

import zlib
from collections.abc import Callable, Iterator

import numpy as np

from fleetrec.reader import ReaderBase, Sample

DEFAULT_ITEMS = 1000


class Reader(ReaderBase):
    """Makes one sample of every item of a session but the first, with others drawn at random.

    What is drawn depends on the line only, so that every epoch and every process draws the same.
    """

    num_others = 1

    def init(self) -> None:
        """Read the number of items."""
        self.num_items = int(self.setting("hyper_parameters.vocab_size", DEFAULT_ITEMS))

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield the samples of a session."""

        def samples() -> Iterator[Sample]:
            items = [int(item) for item in line.split()]
            rng = np.random.default_rng(zlib.crc32(line.encode()))
            for place in range(1, len(items)):
                drawn = rng.integers(1, self.num_items, self.num_others)
                # One that happens to be the next item is replaced by its neighbour.
                others = np.where(drawn == items[place], drawn - 1, drawn)
                yield {"session": items[:place], "next": items[place], "others": others.tolist()}

        return samples
