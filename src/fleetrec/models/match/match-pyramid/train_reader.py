"""Lines of two texts, ``word,word,..<tab>word,word,..``: 64 that fit, then 64 that do not."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fleetrec.reader import ReaderBase, Sample

PAIRS = 64  # line i and line i + PAIRS of a block have the same left text


class Reader(ReaderBase):
    """The layout of the prepared LETOR files; makes one sample of the two lines of a left text."""

    def read(self, path: str) -> Iterator[Sample]:
        """Yield the samples of a file; what is no whole block at its end is left out."""
        block: list[str] = []
        with _open(Path(path)) as lines:
            for line in lines:
                block.append(line)
                if len(block) == 2 * PAIRS:
                    yield from map(_sample, block[:PAIRS], block[PAIRS:])
                    block = []


def _open(path: Path) -> IO[str]:
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


def _sample(fitting: str, other: str) -> Sample:
    left, right = _texts(fitting)
    return {"left": left, "right": right, "right_neg": _texts(other)[1]}


def _texts(line: str) -> list[list[int]]:
    return [[int(word) for word in text.split(",")] for text in line.split("\t")[:2]]
