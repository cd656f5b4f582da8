"""What a format is: how rows are read from a file, and how rows become samples.

To add one, write ``data/sources/<name>.py`` with ``class X(Source, name="<name>")``. Reading and
understanding are apart because one thread reads a file in order while several understand.
"""

import dataclasses
import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import fleetrec.data.sources
from fleetrec.config.job import DatasetOptions, TextTableOptions
from fleetrec.core.batch import Inputs
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.files import DataFile

DEFAULT = "slot_text"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """A file, or some rows of it: one worker's share where files are fewer than workers.

    ``begin`` and ``end`` are places as the format counts (``Source.cut``). Where a format cannot
    begin in the middle, workers take turns: this one has stretch ``turn`` of every ``num_turns``.
    """

    file: DataFile
    begin: int = 0
    end: int | None = None
    turn: int = 0
    num_turns: int = 1
    num_bytes: int = 0  # about how much of the file it is


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk(ABC):
    """Rows of one slice as they were read, not yet understood."""

    file_slice: FileSlice
    first_row: int  # counted from the beginning of the slice
    end: int  # where reading goes on behind it, as the format counts
    fraction: float  # of the slice that is read when this chunk is
    is_whole_batch: bool = False  # a batch ends behind it, whatever its size

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Return the number of rows, at least one."""

    @abstractmethod
    def take(self, max_rows: int) -> tuple[Self, Self | None]:
        """Cut after at most ``max_rows`` rows (at least one); None if nothing is left."""


class BadRowError(DataError):
    """A row that cannot be understood; the message names file and line.

    ``row`` counts through all chunks that were decoded together.
    """

    def __init__(self, message: str, *, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        """Come back whole from another process."""
        return functools.partial(BadRowError, row=self.row), (str(self),)


class Source(ABC):
    """One format. Instances are shared by threads: they hold nothing but what was declared."""

    family: ClassVar[dict[str, type["Source"]]] = {}
    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()  # of files that are read so unless the job says else
    # Understanding, or reading itself, holds the GIL: several do it in processes, not threads.
    decodes_in_python: bool = False
    reads_in_python: bool = False
    applies_id_rules: bool = False  # to values, before missing ones are padded
    takes_text_table: bool = False  # knows separators, quotes and columns
    rows_map_to_many_samples: bool = False  # a row may give no sample, or several
    num_threads: int = 1  # that one call of ``decode`` may use, if it knows how

    def __init_subclass__(cls, *, name: str) -> None:
        super().__init_subclass__()
        if name in Source.family:
            raise TypeError(f"two sources are called {name!r}")
        Source.family[name] = cls
        cls.name = name

    def __init__(self, options: DatasetOptions) -> None:
        self.options = options

    @property
    def inputs(self) -> Inputs:
        """Return what the blocks hold."""
        dense = {slot.name: slot.shape for slot in self.options.dense}
        return Inputs(sparse=self.options.sparse, dense=dense)

    @abstractmethod
    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[RowChunk]:
        """Yield the rows of a slice from a place on: its ``begin``, or the ``end`` of a chunk.

        ``row`` is the number of that place within the slice. Chunks hold some
        megabytes. Raises DataError where the file cannot be read.
        """

    @abstractmethod
    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return all rows of some chunks, one sample each; raises BadRowError at the first bad one.

        Called by several threads at once.
        """

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the first row behind a fraction of a file, as a place; None: it has no such place.

        A cut at 0 is 0. Two workers that ask for the same fraction get the same place.
        """
        del file, fraction
        return None


def source_names() -> list[str]:
    """Return the names of all formats."""
    return [module.name for module in pkgutil.iter_modules(fleetrec.data.sources.__path__)]


def build_source(options: DatasetOptions, files: Sequence[DataFile]) -> Source:
    """Return the format that the job names, or else the one that the files' suffix tells."""
    name = options.format or _by_suffix(files)
    if name not in source_names():
        raise DataError(f"no format is called {name!r}; known: {', '.join(source_names())}")
    importlib.import_module(f"fleetrec.data.sources.{name}")
    source = Source.family[name]
    if options.text_table != TextTableOptions() and not source.takes_text_table:
        raise DataError(
            f"data set {options.name}: separators, quote and columns are for text tables (csv); "
            f"the files are read as {name}"
        )
    return source(options)


def _by_suffix(files: Sequence[DataFile]) -> str:
    for name in source_names():
        importlib.import_module(f"fleetrec.data.sources.{name}")
    for file in files:
        name = file.name.lower().removesuffix(".gz")
        for source in Source.family.values():
            if name.endswith(source.suffixes):
                return source.name
    return DEFAULT
