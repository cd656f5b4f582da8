"""The click logs of Criteo as three binary files: labels, numbers and categories."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.columns import TableChunk, decode_tables
from fleetrec.data.files import DataFile, list_files, storage_errors
from fleetrec.data.source import FileSlice, RowChunk, Source
from fleetrec.features.feature_set import FeatureSet

NUM_NUMBERS, NUM_CATEGORIES = 13, 26
LABEL_BYTES, NUMBERS_BYTES, CATEGORIES_BYTES = 4, 4 * NUM_NUMBERS, 4 * NUM_CATEGORIES
CHUNK_ROWS = 1 << 16
LARGEST_LABEL = 1 << 20  # labels above are not integers, but floats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    numbers: DataFile
    categories: DataFile


class CriteoBinary(Source, name="criteo_binary"):
    """Columns ``label``, ``f1`` to ``f13`` and ``c1`` to ``c26``.

    The files of the data set hold labels; those of numbers and categories follow in their order.
    """

    takes_streams = False
    applies_id_rules = True

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._features = FeatureSet(dataset_features(options))

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[TableChunk]:
        """Yield rows from ``offset`` on; positions are rows."""
        file = file_slice.file
        parts = self._parts(file)
        end = file.num_bytes // LABEL_BYTES if file_slice.end is None else file_slice.end
        total = max(1, end - file_slice.begin)
        while offset < end:
            count = min(CHUNK_ROWS, end - offset)
            yield TableChunk(
                file_slice=file_slice,
                first_row=row,
                begin=offset,
                end=offset + count,
                begin_fraction=(offset - file_slice.begin) / total,
                fraction=(offset + count - file_slice.begin) / total,
                rows=self._rows(file, parts, offset, count),
                undeclared=(),
            )
            offset, row = offset + count, row + count

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return a row."""
        return int(file.num_bytes // LABEL_BYTES * fraction)

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples."""
        return decode_tables(self._features, chunks, self.options, place=_place)

    def _parts(self, file: DataFile) -> _Parts:
        """Return the files of numbers and categories that belong to one of labels."""
        binary = self.options.criteo
        if binary is None:
            raise DataError(f"data set {self.options.name}: expected dense_path and category_path")
        labels = _listed((self.options.data_path, *self.options.more_paths))
        numbers, categories = _listed(binary.dense_paths), _listed(binary.category_paths)
        if not len(labels) == len(numbers) == len(categories):
            raise DataError(
                f"data set {self.options.name}: expected as many files of labels, numbers and "
                f"categories, got {len(labels)}, {len(numbers)} and {len(categories)}"
            )
        at = [one.path for one in labels].index(file.path)
        num_rows = file.num_bytes // LABEL_BYTES
        for part, size in ((numbers[at], NUMBERS_BYTES), (categories[at], CATEGORIES_BYTES)):
            if part.num_bytes != num_rows * size:
                raise DataError(
                    f"{part.path}: expected {num_rows * size} bytes, {size} for each of the "
                    f"{num_rows} labels in {file.path}, got {part.num_bytes}"
                )
        return _Parts(numbers=numbers[at], categories=categories[at])

    def _rows(self, file: DataFile, parts: _Parts, first: int, count: int) -> pa.RecordBatch:
        labels = np.frombuffer(_bytes(file, first, count, LABEL_BYTES), np.int32)
        if np.abs(labels.astype(np.int64)).max(initial=0) > LARGEST_LABEL:
            labels = labels.view(np.float32).astype(np.int32)
        numbers = np.frombuffer(_bytes(parts.numbers, first, count, NUMBERS_BYTES), np.float32)
        ids = np.frombuffer(_bytes(parts.categories, first, count, CATEGORIES_BYTES), np.int32)
        columns = {"label": labels}
        by_number = numbers.reshape(count, NUM_NUMBERS).T
        by_id = ids.reshape(count, NUM_CATEGORIES).T
        columns |= {f"f{i + 1}": np.ascontiguousarray(by_number[i]) for i in range(NUM_NUMBERS)}
        columns |= {f"c{i + 1}": np.ascontiguousarray(by_id[i]) for i in range(NUM_CATEGORIES)}
        needed, _ = self._features.split_columns(list(columns))
        return pa.RecordBatch.from_pydict({name: pa.array(columns[name]) for name in needed})


def _listed(paths: Sequence[str]) -> list[DataFile]:
    return [file for path in paths for file in list_files(path)]


def _bytes(file: DataFile, first: int, count: int, size: int) -> bytes:
    with storage_errors(file.path, doing="read"), file.open(in_order=False) as stream:
        stream.seek(first * size)
        content: bytes = stream.read(count * size)
    return content


def _place(chunk: TableChunk, row: int) -> str:
    return f"{chunk.file_slice.file.path}: row {chunk.begin + row + 1}"
