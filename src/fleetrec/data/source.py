"""The base class of formats: reads rows from a file and decodes them to samples.

To add one, write ``data/sources/<name>.py`` with ``class X(Source, name="<name>")``. Reading and
decoding are separate because one thread reads a file in order while several decode.
"""

import dataclasses
import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import fleetrec.data.sources
from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.input_rules import InputRules
from fleetrec.config.job import DatasetOptions, TextTableOptions
from fleetrec.core.batch import Inputs
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.files import DataFile

DEFAULT = "slot_text"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """A file, or some rows of it if there are fewer files than workers.

    ``begin`` and ``end`` are positions in the unit of the format (``Source.cut``). If a format
    cannot be read from the middle, workers take turns: this one has part ``turn`` of every
    ``num_turns``.
    """

    file: DataFile
    begin: int = 0
    end: int | None = None
    turn: int = 0
    num_turns: int = 1
    num_bytes: int = 0  # approximate size in the file


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk(ABC):
    """Rows of one slice as they were read, not decoded yet."""

    file_slice: FileSlice
    first_row: int  # index within the slice
    end: int  # the position after it, in the unit of the format
    fraction: float  # of the slice, up to the end of this chunk
    is_whole_batch: bool = False  # the chunk is a batch of its own, whatever its size

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Return the number of rows, at least one."""

    @abstractmethod
    def take(self, max_rows: int) -> tuple[Self, Self | None]:
        """Cut after at most ``max_rows`` rows (at least one); None if nothing is left."""


class BadRowError(DataError):
    """A row that cannot be decoded; the message names file and line.

    ``row`` is its index over all chunks of the call.
    """

    def __init__(self, message: str, *, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep ``row`` when the error is pickled."""
        return functools.partial(BadRowError, row=self.row), (str(self),)


class Source(ABC):
    """One format. Instances are shared by threads, so they hold options only."""

    family: ClassVar[dict[str, type["Source"]]] = {}
    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()  # of files that have this format by default
    # Decoding, or reading, holds the GIL, so that several run in processes instead of threads.
    decodes_in_python: bool = False
    reads_in_python: bool = False
    applies_id_rules: bool = False  # itself, before missing values are padded
    takes_streams: bool = True  # of messages, which are lines of text
    takes_text_table: bool = False  # has separators, quotes and columns
    rows_map_to_many_samples: bool = False  # a row may give no sample, or several
    num_threads: int = 1  # that one call of ``decode`` may use

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
        """Return the features of the blocks."""
        dense = {slot.name: slot.shape for slot in self.options.dense}
        return Inputs(sparse=self.options.sparse, dense=dense)

    @property
    def input_rules(self) -> InputRules:
        """Return how columns become the same features, for models that are stored with them."""
        return InputRules(features=dataset_features(self.options))

    @abstractmethod
    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[RowChunk]:
        """Yield the rows of a slice from ``offset`` on: its ``begin``, or the ``end`` of a chunk.

        ``row`` is the index of the first row within the slice. Chunks hold some megabytes. Raises
        DataError if the file cannot be read.
        """

    @abstractmethod
    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return all rows of some chunks, one sample each; raises BadRowError at the first bad one.

        Called by several threads at once.
        """

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the position of the first row after a fraction of a file.

        None if the format can only be read from the beginning. A cut at 0 is 0, and the same
        fraction always gives the same position.
        """
        del file, fraction
        return None


def source_names() -> list[str]:
    """Return the names of all formats."""
    return [module.name for module in pkgutil.iter_modules(fleetrec.data.sources.__path__)]


def build_source(options: DatasetOptions, files: Sequence[DataFile]) -> Source:
    """Return the format that the job names, else the one of the files' suffix."""
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
    made = source(options)
    if not made.takes_streams and any(file.is_stream for file in files):
        raise DataError(
            f"data set {options.name}: a stream is read as lines of text, not as {name}; name "
            "another format"
        )
    return made


def _by_suffix(files: Sequence[DataFile]) -> str:
    for name in source_names():
        importlib.import_module(f"fleetrec.data.sources.{name}")
    for file in files:
        name = file.name.lower().removesuffix(".gz")
        for source in Source.family.values():
            if name.endswith(source.suffixes):
                return source.name
    return DEFAULT
