"""Predicts rows of files, and writes outputs and kept columns. No torch."""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fleetrec.core.errors import ConfigError, DataError
from fleetrec.export.column_files import ColumnFiles
from fleetrec.export.prediction_files import PredictionWriter
from fleetrec.features.column import BadValueError
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.values import FeatureValues

logger = logging.getLogger(__name__)

ALL_COLUMNS = "all"
REPORT_INTERVAL_S = 5.0

Array = npt.NDArray[Any]
Score = Callable[[FeatureValues], Mapping[str, Array]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputRows:
    """Some rows: their features, their kept columns, and the share of the data up to them."""

    values: FeatureValues
    kept: pa.RecordBatch | None = None
    share: float


def column_rows(
    files: ColumnFiles,
    features: FeatureSet,
    *,
    keep: Sequence[str],
    batch_size: int,
    skip_rows: int,
) -> Iterator[InputRows]:
    """Yield the rows of files with columns after the first ``skip_rows``."""
    number = skip_rows
    for rows, share in files.batches(batch_size=batch_size, skip_rows=skip_rows):
        features.check_schema(rows.schema, where=features.options.owner or "columns")
        if not features.split_columns(rows.schema.names)[0]:
            raise DataError(
                f"{features.options.owner}: none of the columns {', '.join(rows.schema.names)} is "
                "an input of the model"
            )
        try:
            values = features.transform_rows(rows)
        except BadValueError as error:
            raise DataError(f"row {number + error.row + 1} of the data: {error}") from error
        yield InputRows(values=values, kept=_kept(rows, keep), share=share)
        number += rows.num_rows


def predict_rows(inputs: Iterator[InputRows], score: Score, writer: PredictionWriter) -> None:
    """Predict the rows that follow those that ``writer`` has, and write them."""
    first = writer.num_rows
    if first:
        logger.info("continues after %s rows", f"{first:,}")
    progress = _Progress(first)
    for rows in inputs:
        writer.write(_joined(rows, score(rows.values)))
        progress.add(rows.values.num_rows, rows.share)
    writer.finish()
    progress.report()


class _Progress:
    """Logs the number of rows, the rate and the time left."""

    def __init__(self, num_rows: int) -> None:
        self._begin = self._reported = time.monotonic()
        self._num_rows = num_rows
        self._num_new = 0
        self._share = 0.0
        self._first_share: float | None = None

    def add(self, num_rows: int, share: float) -> None:
        self._num_rows += num_rows
        self._num_new += num_rows
        self._share = share
        if self._first_share is None:
            self._first_share = share
        if time.monotonic() - self._reported >= REPORT_INTERVAL_S:
            self.report()

    def report(self) -> None:
        now = self._reported = time.monotonic()
        seconds = max(now - self._begin, 1e-9)
        done = self._share - (self._first_share or 0.0)
        left = f", {seconds * (1 - self._share) / done:.0f} s left" if done > 0 else ""
        logger.info(
            "predicted %s rows (%.0f %%), %s rows/s%s",
            f"{self._num_rows:,}",
            100 * self._share,
            f"{self._num_new / seconds:,.0f}",
            left if self._share < 1 else "",
        )


def _kept(rows: pa.RecordBatch, keep: Sequence[str]) -> pa.RecordBatch:
    if list(keep) == [ALL_COLUMNS]:
        return rows
    missing = [name for name in keep if name not in rows.schema.names]
    if missing:
        raise ConfigError(
            [
                f"--keep: the data has no column {missing[0]!r}; it has "
                f"{', '.join(rows.schema.names)}"
            ]
        )
    return rows.select(list(keep))


def _joined(rows: InputRows, outputs: Mapping[str, Array]) -> pa.RecordBatch:
    """Return kept columns and outputs side by side."""
    names: list[str] = []
    arrays: list[pa.Array] = []
    if rows.kept is not None:
        names += rows.kept.schema.names
        arrays += rows.kept.columns
    for name, values in outputs.items():
        if name in names:
            raise ConfigError(
                [f"--keep: the column {name!r} has the name of an output; do not keep it"]
            )
        names.append(name)
        arrays.append(_array(values, rows.values.num_rows))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _array(values: Array, num_rows: int) -> pa.Array:
    """Return one number, or one list of numbers, per row; objects are lists already."""
    if values.dtype == object:
        return pa.array(values.tolist())
    flat = np.ascontiguousarray(values).reshape(num_rows, -1)
    if flat.shape[1] == 1:
        return pa.array(flat.reshape(-1))
    offsets = np.arange(num_rows + 1, dtype=np.int32) * flat.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat.reshape(-1)))
