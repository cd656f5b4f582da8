"""Text in columns, separated by one byte: CSV, tab separated and the like."""

import csv
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.csv

from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.input_rules import InputRules
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.columns import RowValues, assemble, to_bad_row
from fleetrec.data.files import DataFile
from fleetrec.data.source import BadRowError, FileSlice, RowChunk, Source
from fleetrec.data.text import (
    TextChunk,
    cut_text,
    first_line,
    line_of,
    read_text,
)
from fleetrec.features.column import BadValueError
from fleetrec.features.feature_set import FeatureSet

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CsvChunk(TextChunk):
    """Whole lines, and the names of their columns."""

    columns: tuple[str, ...]


class BadLineError(Exception):
    """A line that cannot be split into cells."""

    def __init__(self, row: int, text: str, reason: str) -> None:
        super().__init__(f"{text[:80]!r}: {reason}")
        self.row = row


class Csv(Source, name="csv"):
    """Splits lines by pyarrow into cells of text, which the features parse."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    applies_id_rules = True
    takes_text_table = True
    prefixes: ClassVar[Mapping[str, str]] = {}  # hashed in front of the text of a feature

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        table = options.text_table
        self._features = FeatureSet(
            dataset_features(options, has_text_cells=True, prefixes=self.prefixes)
        )
        self._separator = _to_byte(table.separator, options, key="separator") or b","
        self._quote = _to_byte(table.quote, options, key="quote")
        _to_byte(table.list_separator, options, key="list_separator")
        _to_byte(table.weight_separator, options, key="weight_separator")
        marks = [table.separator, table.quote, table.list_separator, table.weight_separator]
        given = [mark for mark in marks if mark]
        if len(set(given)) < len(given):
            raise DataError(
                f"data set {options.name}: separators and the quote must differ, got {given}"
            )
        _check_different(table.columns, where=f"data set {options.name}: columns")

    @property
    def input_rules(self) -> InputRules:
        """Return the rules for cells of text, and how lines are cut into cells."""
        return InputRules(features=self._features.options, text_table=self.options.text_table)

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[CsvChunk]:
        """Yield whole lines, without the one that names the columns."""
        columns, begin = self._columns(file_slice.file)
        begin = max(begin, offset)
        if file_slice.end is not None and file_slice.end <= begin:
            return
        for chunk in read_text(file_slice, offset=begin, row=row):
            yield CsvChunk(
                file_slice=file_slice,
                first_row=chunk.first_row,
                end=chunk.end,
                begin_fraction=chunk.begin_fraction,
                fraction=chunk.fraction,
                text=chunk.text,
                columns=columns,
            )

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the first line after a fraction of the file."""
        return cut_text(file, fraction)

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples, or raise an error that names file, line and column."""
        parts = []
        for index, chunk in enumerate(chunks):
            assert isinstance(chunk, CsvChunk)
            try:
                parts.append(self._decode_chunk(chunk))
            except BadLineError as error:
                row = sum(p.num_rows for p in chunks[:index]) + error.row
                message = f"{self._place(chunk, error.row)}: {error}"
                raise BadRowError(message, row=row) from None
            except BadValueError as fault:
                place = self._place(chunk, fault.row)
                raise to_bad_row(fault, place=place, chunks=chunks, index=index) from None
        return assemble(self.options, parts)

    def _columns(self, file: DataFile) -> tuple[tuple[str, ...], int]:
        """Return the names of the columns, and where the first row begins."""
        if self.options.text_table.columns:
            return self.options.text_table.columns, 0
        line = first_line(file)
        text = line.removeprefix(BYTE_ORDER_MARK).rstrip(b"\r\n").decode(errors="replace")
        if not text:
            return (), len(line)
        (names,) = csv.reader(
            [text],
            delimiter=self._separator.decode(),
            quotechar=self.options.text_table.quote or None,
            quoting=csv.QUOTE_MINIMAL if self._quote else csv.QUOTE_NONE,
        )
        _check_different(names, where=f"{file.path}:1")
        if not self._features.split_columns(names)[0]:
            raise DataError(
                f"{file.path}:1: expected a line that names the columns, got {text[:80]!r}, in "
                "which no declared feature is; if the file has no such line, give the columns"
            )
        return tuple(names), len(line)

    def _place(self, chunk: CsvChunk, row: int) -> str:
        file, line = line_of([chunk], row)
        has_header = not self.options.text_table.columns and chunk.file_slice.begin == 0
        return f"{file.path}:{line + has_header}"

    def _decode_chunk(self, chunk: CsvChunk) -> RowValues:
        needed, undeclared = self._features.split_columns(chunk.columns)
        text = bytes(chunk.text)
        if text.startswith(BYTE_ORDER_MARK) and chunk.end > len(text):
            text = BYTE_ORDER_MARK + text  # pyarrow drops a leading mark; here it is data
        text, num_empty = self._fill_empty_lines(text, len(chunk.columns))
        try:
            rows = self._cut_cells(text, chunk.num_rows, chunk.columns, needed)
        except BadLineError as error:
            if error.row > 0:  # there may be a bad cell before the bad line
                self._decode_chunk(chunk.take(error.row)[0])
            raise
        values = self._features.transform_rows(rows)
        return RowValues(values=values, undeclared=undeclared, num_empty=num_empty)

    def _fill_empty_lines(self, text: bytes, num_columns: int) -> tuple[bytes, int]:
        """Make empty lines rows of empty cells, which pyarrow would leave out."""
        has_some = text.startswith((b"\n", b"\r\n")) or b"\n\n" in text or b"\n\r\n" in text
        if num_columns == 1 or not has_some:
            return text, 0
        return re.subn(rb"(?m)^(?=\r?\n)", self._separator * (num_columns - 1), text)

    def _cut_cells(
        self, text: bytes, num_rows: int, columns: Sequence[str], needed: Sequence[str]
    ) -> pa.RecordBatch:
        """Return the columns that are needed as text."""
        stray = re.search(rb"\r(?!\n)", text) if b"\r" in text else None
        if stray is not None:
            row = text.count(b"\n", 0, stray.start())
            raise BadLineError(row, _line(text, row), "a carriage return within a line")
        has_quotes = self._quote is not None and self._quote in text
        if has_quotes:  # one more line: an open quote in the last one would swallow it
            end = b"" if text.endswith(b"\n") else b"\n"
            text += end + (self._separator * (len(columns) - 1) or b"-") + b"\n"
        rows = self._parse(text, columns, needed)
        if has_quotes and rows.num_rows != num_rows + 1:
            raise self._open_quote(text, num_rows, columns, needed)
        return rows.slice(0, num_rows)

    def _parse(self, text: bytes, columns: Sequence[str], needed: Sequence[str]) -> pa.RecordBatch:
        bad: list[pa.csv.InvalidRow] = []

        def stop(row: pa.csv.InvalidRow) -> str:
            bad.append(row)
            return "error"

        try:
            table = pa.csv.read_csv(
                pa.BufferReader(text),
                read_options=pa.csv.ReadOptions(
                    use_threads=False, block_size=len(text) + 1, column_names=columns
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self._separator.decode(),
                    quote_char=self._quote.decode() if self._quote else False,
                    ignore_empty_lines=len(columns) > 1,
                    invalid_row_handler=stop,
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(columns, pa.binary()),
                    include_columns=needed or columns[:1],
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            if not bad:
                raise
            row = bad[0]
            reason = f"expected {row.expected_columns} cells, got {row.actual_columns}"
            if "\n" in row.text:
                reason = "a quote is not closed in its line"
            line = row.text.split("\n")[0]
            raise BadLineError(row.number - 1, line, reason) from None
        return table.combine_chunks().to_batches()[0]

    def _open_quote(
        self, text: bytes, num_rows: int, columns: Sequence[str], needed: Sequence[str]
    ) -> BadLineError:
        """Find the first line with an open quote, by bisection."""
        lines = text.splitlines(keepends=True)
        low, high = 0, num_rows  # ``low`` lines are good, ``high`` are not
        while high - low > 1:
            middle = (low + high) // 2
            head = b"".join(lines[:middle]) + lines[-1]
            is_good = self._parse(head, columns, needed).num_rows == middle + 1
            low, high = (middle, high) if is_good else (low, middle)
        return BadLineError(low, _line(text, low), "a quote is not closed in its line")


def _line(text: bytes, row: int) -> str:
    return text.split(b"\n", row + 1)[row].decode(errors="replace")


def _check_different(names: Sequence[str], *, where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{where}: expected columns with different names, got {twice[0]!r} twice")


def _to_byte(text: str | None, options: DatasetOptions, *, key: str) -> bytes | None:
    """Return a separator as a byte; None for none."""
    if not text:
        return None
    encoded = text.encode()
    if len(encoded) != 1 or encoded in b"\r\n":
        raise DataError(
            f"data set {options.name}: {key}: expected one byte that ends no line, got {text!r}"
        )
    return encoded
