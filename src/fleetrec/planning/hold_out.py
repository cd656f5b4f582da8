"""Split the rows of one table file into files to train on and to evaluate on."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from fleetrec.core import storage
from fleetrec.planning.table_profile import TableFormat

EVALUATE_SHARE = 0.1
BLOCK_BYTES = 8 << 20

Mask = np.ndarray  # of booleans: which rows to evaluate on


def split_rows(
    source: str,
    target: Path,
    table_format: TableFormat,
    *,
    time_column: str | None,
    seed: int = 0,
) -> tuple[str, str, int]:
    """Write ``train`` and ``eval`` files into a folder; returns their names, and rows to train on.

    The last tenth by ``time_column`` is to evaluate on; without one a random tenth. Rows keep
    their order, and lines of text their bytes.
    """
    target.mkdir(parents=True, exist_ok=True)
    if table_format.format == "parquet":
        return _split_parquet(source, target, time_column=time_column, seed=seed)
    return _split_text(source, target, table_format, time_column=time_column, seed=seed)


def _split_parquet(
    source: str, target: Path, *, time_column: str | None, seed: int
) -> tuple[str, str, int]:
    names = ("train.parquet", "eval.parquet")
    with storage.open_read(source) as stream:
        file = pq.ParquetFile(stream)
        times = None if time_column is None else file.read([time_column]).column(0)
        mask = _mask(file.metadata.num_rows, times, seed=seed)
        with (
            pq.ParquetWriter(target / names[0], file.schema_arrow) as train,
            pq.ParquetWriter(target / names[1], file.schema_arrow) as evaluate,
        ):
            begin = 0
            for batch in file.iter_batches():
                of_batch = mask[begin : begin + batch.num_rows]
                begin += batch.num_rows
                train.write_batch(batch.filter(pa.array(~of_batch)))
                evaluate.write_batch(batch.filter(pa.array(of_batch)))
    return *names, int((~mask).sum())


def _split_text(
    source: str, target: Path, table_format: TableFormat, *, time_column: str | None, seed: int
) -> tuple[str, str, int]:
    names = ("train.csv", "eval.csv")
    with storage.open_read(source) as stream:
        lines = [line for line in stream.read().splitlines(keepends=True) if line.strip()]
    if lines and not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    header = lines[:1] if table_format.has_header else []
    rows = lines[len(header) :]
    times = None
    if time_column is not None:
        times = _time_column(rows, table_format, time_column)
    mask = _mask(len(rows), times, seed=seed)
    for name, is_chosen in zip(names, (~mask, mask), strict=True):
        chosen = [row for row, is_in in zip(rows, is_chosen, strict=True) if is_in]
        (target / name).write_bytes(b"".join([*header, *chosen]))
    return *names, int((~mask).sum())


def _time_column(rows: list[bytes], table_format: TableFormat, name: str) -> pa.ChunkedArray:
    table = pcsv.read_csv(
        io.BytesIO(b"".join(rows)),
        read_options=pcsv.ReadOptions(column_names=table_format.columns),
        parse_options=pcsv.ParseOptions(delimiter=table_format.separator),
        convert_options=pcsv.ConvertOptions(include_columns=[name]),
    )
    return table.column(0)


def _mask(num_rows: int, times: pa.ChunkedArray | None, *, seed: int) -> Mask:
    num_evaluate = max(1, round(num_rows * EVALUATE_SHARE))
    if times is None:
        order = np.random.default_rng(seed).permutation(num_rows)
    else:  # equal times: the later rows; rows without a time are trained on
        order = pc.array_sort_indices(
            times.combine_chunks(), order="ascending", null_placement="at_start"
        ).to_numpy()
    mask: Mask = np.zeros(num_rows, bool)
    mask[order[num_rows - num_evaluate :]] = True
    return mask
