"""Which rows of which files a worker reads."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fleetrec.core.partition import contiguous_block
from fleetrec.data.files import DataFile
from fleetrec.data.source import FileSlice, Source


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataShard:
    """Which part of the data one of ``count`` workers reads.

    By ``files`` a worker takes a contiguous block of them. By ``batch`` all workers read all files,
    and each takes its portion of the rows of every batch; a batch is then as large as all portions.
    Files below ``own_folder`` are of this worker alone, which reads all of them.
    """

    index: int = 0
    count: int = 1
    by: Literal["files", "batch"] = "files"
    own_folder: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"worker {self.index} of {self.count} does not exist")


def plan_slices(
    files: Sequence[DataFile], source: Source, shard: DataShard
) -> tuple[FileSlice, ...]:
    """Return what one worker reads; the slices of all workers hold each row exactly once.

    A worker gets a contiguous block of files; the first (files modulo workers) have one more. If
    there are fewer files than workers, the bytes of all files are cut into equal ranges, each at
    the next row; files that cannot be cut are read by all workers, who take turns. A shard by
    ``batch`` is cut later, from each batch, and the files of ``own_folder`` are not divided.
    """
    if shard.by == "batch" or _are_own(files, shard):
        return tuple(whole_file(file) for file in files)
    if len(files) >= shard.count:
        own = contiguous_block(len(files), shard.index, shard.count)
        return tuple(whole_file(files[i]) for i in own)
    total = sum(file.num_bytes for file in files)
    slices: list[FileSlice] = []
    before = 0
    for file in files:
        first = _place_in(file, total * shard.index / shard.count - before)
        last = _place_in(file, total * (shard.index + 1) / shard.count - before)
        slices += _stretch(file, source, shard, fractions=(first, last))
        before += file.num_bytes
    return tuple(slices)


def whole_file(file: DataFile) -> FileSlice:
    """Return a whole file."""
    return FileSlice(file=file, num_bytes=file.num_bytes)


def _are_own(files: Sequence[DataFile], shard: DataShard) -> bool:
    if shard.own_folder is None:
        return False
    folder = Path(shard.own_folder).resolve()
    return all(
        not file.is_remote and Path(file.path).resolve().is_relative_to(folder) for file in files
    )


def _place_in(file: DataFile, place: float) -> float:
    return min(1.0, max(0.0, place / max(1, file.num_bytes)))


def _stretch(
    file: DataFile, source: Source, shard: DataShard, *, fractions: tuple[float, float]
) -> list[FileSlice]:
    if source.cut(file, 0.5) is None:
        num_bytes = file.num_bytes // shard.count
        return [FileSlice(file=file, turn=shard.index, num_turns=shard.count, num_bytes=num_bytes)]
    if fractions[0] == fractions[1]:
        return []
    begin = source.cut(file, fractions[0])
    end = source.cut(file, fractions[1]) if fractions[1] < 1 else None
    assert begin is not None
    if begin == end:
        return []
    num_bytes = int(file.num_bytes * (fractions[1] - fractions[0]))
    return [FileSlice(file=file, begin=begin, end=end, num_bytes=num_bytes)]
