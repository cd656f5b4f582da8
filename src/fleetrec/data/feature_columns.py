"""Rows of columns to features that are declared apart from the columns."""

from collections.abc import Mapping

import pyarrow as pa

from fleetrec.config.features import ColumnOptions
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.columns import BadCellError, BadColumnError
from fleetrec.data.lists import Columns, IdLists, Numbers
from fleetrec.features.column import BadValueError, Column
from fleetrec.features.feature import build_feature


class FeatureDecoder:
    """Makes the declared features out of the columns they name."""

    def __init__(self, options: DatasetOptions) -> None:
        self._options = options
        self._columns = {column.name: column for column in options.columns}
        self._features = {feature.name: build_feature(feature) for feature in options.features}

    def decode(self, rows: pa.RecordBatch, *, undeclared: tuple[str, ...] = ()) -> Columns:
        """Return the features of some rows; raises BadColumnError for the first bad row."""
        found = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns = {
            name: Column(values, self._columns.get(name, ColumnOptions(name=name)))
            for name, values in found.items()
        }
        self._check_columns(columns)
        made: dict[str, IdLists | Numbers] = {}
        faults: list[BadValueError] = []
        for name, feature in self._features.items():
            try:
                made[name] = feature.transform(columns)
            except BadValueError as fault:
                faults.append(fault)
        if faults:
            first = min(faults, key=lambda fault: fault.row)
            cell = BadCellError(row=first.row, text=first.text, reason=first.reason)
            raise BadColumnError(cell, column=first.column)
        sparse, dense = [], []
        for name in self._options.sparse:
            ids = made[name]
            assert isinstance(ids, IdLists)
            sparse.append(ids)
        for slot in self._options.dense:
            numbers = made[slot.name]
            assert isinstance(numbers, Numbers)
            dense.append(numbers)
        unknown = tuple(name for name in undeclared if name not in self._columns)
        return Columns(num_rows=rows.num_rows, sparse=sparse, dense=dense, undeclared=unknown)

    def _check_columns(self, columns: Mapping[str, Column]) -> None:
        for feature in self._options.features:
            for name in feature.columns:
                if name not in columns:
                    raise DataError(
                        f"data set {self._options.name}: feature {feature.name!r} is made of "
                        f"column {name!r}, which the data does not have; it has "
                        f"{', '.join(columns)}"
                    )
