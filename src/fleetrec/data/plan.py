"""Which rows of which files a worker reads."""

import dataclasses
from collections.abc import Sequence

from fleetrec.core.partition import contiguous_block
from fleetrec.data.files import DataFile
from fleetrec.data.source import Part, Source


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One worker of several.

    Of files it takes some, as they come. ``of_batches``: workers make every step together, and
    each takes its portion of the rows of a batch that is as large as all of theirs.
    """

    index: int = 0
    count: int = 1
    of_batches: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"worker {self.index} of {self.count} does not exist")


def plan_parts(files: Sequence[DataFile], source: Source, share: Share) -> tuple[Part, ...]:
    """Return the share of one worker; the shares of all workers are each row exactly once.

    Contiguous blocks of files, the first (files modulo workers) of which have one more. Where
    files are fewer than workers, the bytes of all files are cut into equal stretches instead, at
    the next row each; files that cannot be cut are read by all, who take turns. Shares of batches
    are made later: all read all files.
    """
    if share.of_batches:
        return tuple(whole_part(file) for file in files)
    if len(files) >= share.count:
        own = contiguous_block(len(files), share.index, share.count)
        return tuple(whole_part(files[i]) for i in own)
    total = sum(file.num_bytes for file in files)
    parts: list[Part] = []
    before = 0
    for file in files:
        first = _place_in(file, total * share.index / share.count - before)
        last = _place_in(file, total * (share.index + 1) / share.count - before)
        parts += _stretch(file, source, share, fractions=(first, last))
        before += file.num_bytes
    return tuple(parts)


def whole_part(file: DataFile) -> Part:
    """Return a whole file."""
    return Part(file=file, num_bytes=file.num_bytes)


def _place_in(file: DataFile, place: float) -> float:
    return min(1.0, max(0.0, place / max(1, file.num_bytes)))


def _stretch(
    file: DataFile, source: Source, share: Share, *, fractions: tuple[float, float]
) -> list[Part]:
    if source.cut(file, 0.5) is None:
        num_bytes = file.num_bytes // share.count
        return [Part(file=file, turn=share.index, num_turns=share.count, num_bytes=num_bytes)]
    if fractions[0] == fractions[1]:
        return []
    begin = source.cut(file, fractions[0])
    end = source.cut(file, fractions[1]) if fractions[1] < 1 else None
    assert begin is not None
    if begin == end:
        return []
    num_bytes = int(file.num_bytes * (fractions[1] - fractions[0]))
    return [Part(file=file, begin=begin, end=end, num_bytes=num_bytes)]
