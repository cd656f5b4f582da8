"""Files that a custom reader decodes; see `fleetrec.reader`."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, Self

import pyarrow as pa

from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.samples import BadSampleError, Named, build_block, derived_options, to_named
from fleetrec.data.source import BadRowError, FileSlice, RowChunk, Source
from fleetrec.data.text import TextChunk, cut_text, line_of, read_text
from fleetrec.data.user_code import cached_reader, explain, has_own, load_reader

SAMPLES_PER_CHUNK = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SampleChunk(RowChunk):
    """Samples from the reader; positions are indexes of samples in the file."""

    samples: tuple[Any, ...]

    @property
    def num_rows(self) -> int:
        """Return the number of samples."""
        return len(self.samples)

    def take(self, max_rows: int) -> tuple[Self, Self | None]:
        """Cut after at most ``max_rows`` samples."""
        if max_rows >= len(self.samples):
            return self, None
        num_left = len(self.samples) - max_rows
        head = dataclasses.replace(
            self, samples=self.samples[:max_rows], end=self.end - num_left, is_whole_batch=False
        )
        tail = dataclasses.replace(
            self, samples=self.samples[max_rows:], first_row=self.first_row + max_rows
        )
        return head, tail


class UserReader(Source, name="user_reader"):
    """Passes lines or files to the user's code, which is loaded in every process.

    A reader of lines decodes (`decode`), so that several processes can do it; a reader of files
    reads (`read`), and may make batches of its own.
    """

    def __init__(self, options: DatasetOptions, *, reader: Any = None) -> None:
        if options.reader is None:
            raise DataError(f"data set {options.name}: format user_reader needs a data_converter")
        self._path = Path(options.reader.path)
        self._reader = load_reader(options.reader) if reader is None else reader
        self._read_file = self._file_reader()
        self._lock = threading.Lock()  # the user's code may not be thread-safe
        self.decodes_in_python = self._read_file is None
        self.reads_in_python = self._read_file is not None
        self.takes_streams = self._read_file is None
        self.rows_map_to_many_samples = self._read_file is None
        super().__init__(options)
        if not options.sparse and not options.dense:
            self.options = self._derived(options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options only: the code is loaded once per process."""
        return _in_this_process, (self.options,)

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[RowChunk]:
        """Yield lines, or samples if the reader takes whole files."""
        if self._read_file is None:
            return read_text(file_slice, offset=offset, row=row)
        return self._sample_chunks(file_slice, self._read_file, offset=offset)

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the first line after a fraction of the file, if the reader takes lines."""
        return None if self._read_file is not None else cut_text(file, fraction)

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples; a line may have none or several."""
        rows: list[int] = []
        samples: list[Named] = []
        failure: BadRowError | None = None
        try:
            for row, sample in self._rows(chunks):
                rows.append(row)
                samples.append(to_named(sample, self._order))
        except BadRowError as error:
            failure = error
        except ValueError as error:
            failure = self._bad_row(chunks, rows[-1], str(error))
        try:
            block = build_block(samples, self.options)
        except BadSampleError as error:
            raise self._bad_row(chunks, rows[error.sample], str(error)) from None
        if failure is not None:  # all samples before it are good
            raise failure
        return block

    @property
    def _order(self) -> tuple[str, ...]:
        """Return the features in the order of samples without names."""
        return (*(slot.name for slot in self.options.dense), *self.options.sparse)

    def _file_reader(self) -> Callable[[DataFile], Iterator["_Batch"]] | None:
        """Return a function that makes samples of a whole file; None if the reader takes lines."""
        reader = self._reader
        if has_own(reader, "generate_batch_from_trainfiles"):
            return self._own_batches
        if has_own(reader, "batch_tensor_creator"):
            return self._tensor_batches
        if has_own(reader, "generate_sample"):
            return None
        if has_own(reader, "read") or isinstance(reader, FunctionType):
            return self._file_samples
        raise DataError(
            f"{self._path}: {type(reader).__name__} has none of the methods generate_sample, "
            "generate_batch_from_trainfiles and read"
        )

    def _own_batches(self, file: DataFile) -> Iterator["_Batch"]:
        for batch in _called(self._reader.generate_batch_from_trainfiles([file.path])):
            yield _Batch(list(batch), is_whole=True)

    def _tensor_batches(self, file: DataFile) -> Iterator["_Batch"]:
        def sample_reader() -> Iterator[list[Any]]:
            for chunk in read_text(FileSlice(file=file, num_bytes=file.num_bytes), offset=0, row=0):
                for line in _lines(chunk):
                    for sample in self._samples_of(line):
                        yield [values for _, values in _pairs(sample)]

        for arrays in _called(self._reader.batch_tensor_creator(sample_reader)):
            yield _Batch(_by_sample(arrays), is_whole=True)

    def _file_samples(self, file: DataFile) -> Iterator["_Batch"]:
        read = getattr(self._reader, "read", self._reader)
        items = iter(read(file.path))
        while some := list(itertools.islice(items, SAMPLES_PER_CHUNK)):
            samples: list[Any] = []
            for item in some:
                samples += item.to_pylist() if isinstance(item, pa.RecordBatch) else [item]
            yield _Batch([sample for sample in samples if sample is not None])

    def _sample_chunks(
        self,
        file_slice: FileSlice,
        read_file: Callable[[DataFile], Iterator["_Batch"]],
        *,
        offset: int,
    ) -> Iterator[SampleChunk]:
        """Yield what the reader yields, but for the first ``offset`` samples."""
        end = 0
        for batch in self._guarded(read_file, file_slice.file):
            begin, end = end, end + len(batch.samples)
            samples = batch.samples[max(0, offset - begin) :]
            if samples:
                yield SampleChunk(
                    file_slice=file_slice,
                    first_row=end - len(samples),
                    end=end,
                    fraction=0.0,  # the number of samples is unknown
                    is_whole_batch=batch.is_whole,
                    samples=tuple(samples),
                )

    def _guarded(
        self, read_file: Callable[[DataFile], Iterator["_Batch"]], file: DataFile
    ) -> Iterator["_Batch"]:
        num_samples = 0
        try:
            for batch in read_file(file):
                num_samples += len(batch.samples)
                yield batch
        except DataError:
            raise
        except Exception as error:
            raise DataError(
                f"{file.path}: after sample {num_samples}: {explain(error, self._path)}"
            ) from error

    def _rows(self, chunks: Sequence[RowChunk]) -> Iterator[tuple[int, Any]]:
        """Yield every sample and the number of the row that it comes from."""
        row = 0
        for chunk in chunks:
            if isinstance(chunk, SampleChunk):
                yield from enumerate(chunk.samples, row)
            elif isinstance(chunk, TextChunk):
                for number, line in enumerate(_lines(chunk), row):
                    try:
                        with self._lock:
                            samples = list(self._samples_of(line))
                    except Exception as error:
                        raise self._bad_row(chunks, number, explain(error, self._path)) from error
                    yield from ((number, sample) for sample in samples)
            row += chunk.num_rows

    def _samples_of(self, line: bytes) -> Iterator[Any]:
        for sample in _called(self._reader.generate_sample(line.decode())):
            if sample is not None:
                # A zip object can be iterated only once.
                yield sample if isinstance(sample, Mapping) else list(sample)

    def _bad_row(self, chunks: Sequence[RowChunk], row: int, reason: str) -> BadRowError:
        first = 0
        for chunk in chunks:
            if row < first + chunk.num_rows:
                break
            first += chunk.num_rows
        if isinstance(chunk, SampleChunk):
            number = chunk.first_row + row - first + 1
            where = f"{chunk.file_slice.file.path}: sample {number} of {self._path}"
        else:
            file, line = line_of(chunks, row)
            where = f"{file.path}:{line}"
        return BadRowError(f"{where}: {reason}", row=row)

    def _derived(self, options: DatasetOptions) -> DatasetOptions:
        """Declare the features of the first sample."""
        for file in list_files(options.data_path):
            file_slice = FileSlice(file=file, num_bytes=file.num_bytes)
            for chunk in self.read(file_slice, offset=0, row=0):
                for _, sample in self._rows([chunk]):
                    try:
                        return derived_options(options, sample)
                    except (TypeError, ValueError) as error:
                        raise DataError(
                            f"data set {options.name}: features cannot be inferred from the first "
                            f"sample: {error}; give sparse_slots and dense_slots"
                        ) from error
        raise DataError(
            f"data set {options.name}: there is no sample to infer the features from; give "
            "sparse_slots and dense_slots"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Batch:
    """Some samples; a whole batch is trained on as it is."""

    samples: list[Any]
    is_whole: bool = False


def _in_this_process(options: DatasetOptions) -> UserReader:
    assert options.reader is not None
    modified_ns = Path(options.reader.path).stat().st_mtime_ns
    return UserReader(options, reader=cached_reader(options.reader.model_dump_json(), modified_ns))


def _called(samples: Any) -> Iterable[Any]:
    """Return what a generator, or a function that makes one, yields."""
    found: Iterable[Any] = samples() if callable(samples) else samples
    return found


def _lines(chunk: TextChunk) -> Iterator[bytes]:
    """Yield the lines without their ends."""
    lines = bytes(chunk.text).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return (line.removesuffix(b"\r") for line in lines)


def _pairs(sample: Any) -> Iterable[tuple[Any, Any]]:
    pairs: Iterable[tuple[Any, Any]] = sample.items() if isinstance(sample, Mapping) else sample
    return pairs


def _by_sample(arrays: Any) -> list[Any]:
    """Return one sample per row of arrays that are given by feature or by position."""
    if isinstance(arrays, Mapping):
        return [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]
    return [list(row) for row in zip(*arrays, strict=True)]
