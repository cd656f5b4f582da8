"""RTP text: columns of which the last chosen one holds all features, separated by another mark."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.sources.csv import BadLineError, Csv


class Rtp(Csv, name="rtp"):
    """Lines of outer columns: labels, others, and one column of features.

    The names of the columns are those of the labels, then of the features.
    """

    suffixes = ()

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        if options.rtp is None:
            raise DataError(f"data set {options.name}: rtp needs its outer separator and columns")
        self._rtp = options.rtp

    def _cut_cells(
        self, text: bytes, num_rows: int, columns: Sequence[str], needed: Sequence[str]
    ) -> pa.RecordBatch:
        """Return the columns that are needed as text."""
        chosen = self._outer_columns(text, num_rows)
        mark = pa.scalar(self._separator, pa.binary())
        joined = pc.binary_join_element_wise(*chosen, mark)
        flat = b"\n".join(joined.to_pylist()) + b"\n"
        return super()._cut_cells(flat, num_rows, columns, needed)

    def _outer_columns(self, text: bytes, num_rows: int) -> list[pa.Array]:
        mark = self._rtp.separator.encode()
        num_columns = text.split(b"\n", 1)[0].count(mark) + 1
        if num_columns <= max(self._rtp.selected):
            line = text.split(b"\n", 1)[0].decode(errors="replace")
            raise BadLineError(
                0,
                line,
                f"expected at least {max(self._rtp.selected) + 1} columns separated by "
                f"{self._rtp.separator!r} (rtp_separator), got {num_columns}",
            )
        bad: list[pa.csv.InvalidRow] = []

        def stop(row: pa.csv.InvalidRow) -> str:
            bad.append(row)
            return "error"

        names = [str(number) for number in range(num_columns)]
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(text),
                read_options=pa.csv.ReadOptions(
                    use_threads=False, block_size=len(text) + 1, column_names=names
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=mark.decode(), quote_char=False, invalid_row_handler=stop
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.binary()),
                    include_columns=[str(number) for number in self._rtp.selected],
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            if not bad:
                raise
            reason = f"expected {bad[0].expected_columns} columns, got {bad[0].actual_columns}"
            raise BadLineError(bad[0].number - 1, bad[0].text, reason) from None
        rows = table.combine_chunks().to_batches()[0].slice(0, num_rows)
        return [rows.column(str(number)) for number in self._rtp.selected]
