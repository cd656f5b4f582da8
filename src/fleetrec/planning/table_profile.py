"""Look at the first rows of a table: what its columns are, for a first config."""

import dataclasses
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from fleetrec.core import storage
from fleetrec.core.errors import DataError

SAMPLE_BYTES = 32 << 20
SAMPLE_ROWS = 200_000
SEPARATORS = (",", "\t", ";", "|", "\x01")
LIST_SEPARATORS = ("|", ";", ",", " ")
MIN_LIST_SHARE = 0.2  # of cells that hold several values

ColumnKind = Literal["id", "number", "list", "time", "unused"]

ID_NAME = re.compile(
    r"(^|_)(id|ids|uid|iid|pid|code|type|category|cate|brand|zip|hash|flag)$", re.I
)
ROW_NAME = re.compile(
    r"^(index|row|row_?id|request_?id|log_?id|session_?id|sample_?id|uuid)$", re.I
)
TIME_NAME = re.compile(r"(^|_)(time|timestamp|ts|date|datetime|day|dt)$", re.I)
MAX_SMALL = 200  # an integer column with at most this number of values holds ids
MIN_UNIQUE_ROWS = 1000  # in fewer rows all values may differ by chance
QUANTILES = np.linspace(0.1, 0.9, 9)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """How cells are separated, the names of the columns, and whether the first line has them."""

    format: Literal["csv", "parquet"]
    columns: tuple[str, ...] = ()
    separator: str = ","
    has_header: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column in the first rows. ``reason`` says why it has its kind."""

    name: str
    kind: ColumnKind
    is_text: bool
    num_unique: int
    missing_share: float
    reason: str
    list_separator: str = ""
    quantiles: tuple[float, ...] = ()
    median: float = 0.0
    is_binary: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """The columns of a table, from its first ``num_rows`` rows; ``is_whole``: it has no others."""

    format: TableFormat
    columns: tuple[ColumnProfile, ...]
    num_rows: int
    is_whole: bool

    def column(self, name: str) -> ColumnProfile | None:
        """Return a column by its name."""
        return next((column for column in self.columns if column.name == name), None)


def profile_table(path: str) -> TableProfile:
    """Return the profile of a CSV or Parquet file, at a path or a URL."""
    if path.lower().endswith((".parquet", ".pq")):
        table_format = TableFormat(format="parquet")
        table, is_whole = _parquet_rows(path)
    else:
        table_format, table, is_whole = _csv_rows(path)
    if table.num_rows == 0:
        raise DataError(f"{path}: expected rows, but it has none")
    columns = tuple(
        _profile(name, table.column(index)) for index, name in enumerate(table.column_names)
    )
    return TableProfile(
        format=table_format, columns=columns, num_rows=table.num_rows, is_whole=is_whole
    )


def _parquet_rows(path: str) -> tuple[pa.Table, bool]:
    with storage.open_read(path) as stream:
        try:
            file = pq.ParquetFile(stream)
            batches = []
            for batch in file.iter_batches(batch_size=8192):
                batches.append(batch)
                if sum(one.num_rows for one in batches) >= SAMPLE_ROWS:
                    break
            table = pa.Table.from_batches(batches, schema=file.schema_arrow)
        except pa.ArrowInvalid as error:
            raise DataError(f"{path}: expected a Parquet file: {error}") from error
        return table, table.num_rows == file.metadata.num_rows


def _csv_rows(path: str) -> tuple[TableFormat, pa.Table, bool]:
    with storage.open_read(path) as stream:
        content = stream.read(SAMPLE_BYTES + 1)
    is_whole = len(content) <= SAMPLE_BYTES
    if not is_whole:
        content = content[: content.rfind(b"\n") + 1]
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8: {error}") from error
    if not lines:
        raise DataError(f"{path}: expected rows, but the file is empty")
    separator = _separator(lines[:100])
    first = [cell.strip('"') for cell in lines[0].split(separator)]
    has_header = _is_header(first)
    names = first if has_header else [f"column{number}" for number in range(1, len(first) + 1)]
    try:
        table = pcsv.read_csv(
            io.BytesIO(content),
            read_options=pcsv.ReadOptions(column_names=names, skip_rows=int(has_header)),
            parse_options=pcsv.ParseOptions(delimiter=separator),
            convert_options=pcsv.ConvertOptions(
                strings_can_be_null=True, timestamp_parsers=["no timestamps"]
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: cannot be read as CSV with {separator!r}: {error}") from error
    return (
        TableFormat(format="csv", columns=tuple(names), separator=separator, has_header=has_header),
        table.slice(0, SAMPLE_ROWS),
        is_whole and table.num_rows <= SAMPLE_ROWS,
    )


def _separator(lines: Sequence[str]) -> str:
    """Return the separator that gives every line the same number of cells, the largest one."""
    best, most = ",", 1
    for separator in SEPARATORS:
        counts = Counter(line.count(separator) + 1 for line in lines if line)
        cells, share = counts.most_common(1)[0]
        if cells > most and share >= 0.9 * len(lines):
            best, most = separator, cells
    return best


def _is_header(cells: Sequence[str]) -> bool:
    """Return whether all cells are different names, none of them a number."""
    are_names = all(re.fullmatch(r"[^\W\d][\w .:/-]*", cell) for cell in cells)
    return are_names and len(set(cells)) == len(cells) and len(cells) > 1


def _profile(name: str, column: pa.ChunkedArray) -> ColumnProfile:
    values = column.drop_null()
    missing = column.null_count / len(column)
    kind = _Kind(name, values)
    numbers = _numbers(values) if kind.kind == "number" else np.zeros(0)
    finite = numbers[np.isfinite(numbers)]
    quantiles = np.unique(np.quantile(finite, QUANTILES)) if len(finite) else np.zeros(0)
    return ColumnProfile(
        name=name,
        kind=kind.kind,
        is_text=_is_text(values.type),
        num_unique=kind.num_unique,
        missing_share=missing,
        reason=kind.reason,
        list_separator=kind.list_separator,
        quantiles=tuple(float(f"{q:.6g}") for q in quantiles),
        median=float(f"{np.median(finite):.6g}") if len(finite) else 0.0,
        is_binary=kind.is_binary,
    )


class _Kind:
    """Decides what a column is, by its type, its values and its name."""

    def __init__(self, name: str, values: pa.ChunkedArray) -> None:
        self.list_separator = ""
        is_list = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
        unique = pc.unique(pc.list_flatten(values) if is_list else values)
        self.num_unique = len(unique)
        self.is_binary = _is_binary(unique)
        self.kind, self.reason = self._decide(name, values, is_list=is_list)

    def _decide(
        self, name: str, values: pa.ChunkedArray, *, is_list: bool
    ) -> tuple[ColumnKind, str]:
        found: tuple[ColumnKind, str] = ("number", "numbers")
        is_unique = self.num_unique == len(values) and len(values) > MIN_UNIQUE_ROWS
        if is_list:
            found = "list", "lists of values"
        elif self.num_unique <= 1:
            found = "unused", "has the same value everywhere"
        elif TIME_NAME.search(name) or pa.types.is_temporal(values.type):
            found = "time", "a time, by its name or type"
        elif is_unique and (ROW_NAME.search(name) or _is_text(values.type)):
            found = "unused", "every row has another value"
        elif _is_text(values.type):
            found = self._decide_text(values)
        elif pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
            found = self._decide_integer(name)
        return found

    def _decide_text(self, values: pa.ChunkedArray) -> tuple[ColumnKind, str]:
        self.list_separator = _list_separator(values)
        if self.list_separator:
            parts = pc.split_pattern(pc.cast(values, pa.string()), self.list_separator)
            self.num_unique = len(pc.unique(pc.list_flatten(parts)))
            return "list", f"several values with {self.list_separator!r} between them"
        return "id", "text"

    def _decide_integer(self, name: str) -> tuple[ColumnKind, str]:
        if ID_NAME.search(name):
            return "id", "integers, and called like an id"
        if self.num_unique <= MAX_SMALL:
            return "id", f"integers of {self.num_unique} values"
        return "number", "integers of many values"


def _is_text(data_type: pa.DataType) -> bool:
    is_dictionary = pa.types.is_dictionary(data_type)
    value_type = data_type.value_type if is_dictionary else data_type
    return bool(pa.types.is_string(value_type) or pa.types.is_large_string(value_type))


def _is_binary(unique: pa.Array) -> bool:
    values = unique.to_pylist() if len(unique) == 2 else []
    try:
        return sorted(map(float, values)) == [0.0, 1.0]
    except (TypeError, ValueError):
        return False


def _numbers(values: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy())


def _list_separator(values: pa.ChunkedArray) -> str:
    """Return the separator of values within cells; empty if cells are single values."""
    texts = pc.cast(values.slice(0, 10_000), pa.string())
    for separator in LIST_SEPARATORS:
        share = pc.mean(pc.match_substring(texts, separator)).as_py()
        if share < MIN_LIST_SHARE:
            continue
        parts = pc.list_flatten(pc.split_pattern(texts, separator))
        repeated = len(pc.unique(parts)) < 0.5 * len(parts)
        if repeated or separator != " ":  # free text has blanks, too
            return separator
    return ""
