"""From columns to ids and numbers: all features of a data set, without torch.

Sources, samplers and serving use the same rules. ``FeatureSetOptions`` is plain data, so that the
rules can be stored with a model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fleetrec.config.features import ColumnOptions, FeatureSetOptions
from fleetrec.core.errors import DataError
from fleetrec.features.column import BadValueError, Column
from fleetrec.features.feature import Feature, build_feature
from fleetrec.features.user_function import with_function
from fleetrec.features.values import FeatureValues, Floats, IdLists, Numbers, pad

AnyColumns: TypeAlias = pa.RecordBatch | pa.Table | Mapping[str, Any]


class FeatureSet:
    """Computes the declared features from columns; holds no state, so threads may share it."""

    def __init__(self, options: FeatureSetOptions) -> None:
        self.options = options
        self._columns = {column.name: column for column in options.columns}
        self._features: dict[str, Feature] = {}
        for feature in options.features:
            if feature.name in self._features:
                raise DataError(f"{self._where}two features are called {feature.name!r}")
            try:
                self._features[feature.name] = build_feature(feature)
            except DataError as error:
                raise DataError(f"{self._where}{error}") from error

    @property
    def _where(self) -> str:
        return f"{self.options.owner}: " if self.options.owner else ""

    def split_columns(self, names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return the columns that features need, and those that are not declared."""
        needed = {one for feature in self._features.values() for one in feature.columns_in(names)}
        others = tuple(name for name in names if name not in needed and name not in self._columns)
        return [name for name in names if name in needed], others

    def check_schema(self, schema: pa.Schema, *, where: str) -> None:
        """Raise if a column has a type that its feature cannot be made of."""
        names = schema.names
        for feature in self._features.values():
            for name in feature.columns_in(names):
                if names.count(name) != 1:
                    continue
                problem = feature.type_problem(schema.field(name).type)
                if problem is not None:
                    raise DataError(f"{where}: column {name!r}: {problem}")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(
                f"{where}: expected columns with different names, got {twice[0]!r} twice"
            )

    def transform(self, columns: AnyColumns) -> FeatureValues:
        """Return the features of some rows: a table, or lists or arrays by column.

        Raises DataError, which names row (from 1) and column, if a value or a type does not fit.
        """
        rows = to_record_batch(columns)
        self.check_schema(rows.schema, where=self.options.owner or "columns")
        try:
            return self.transform_rows(rows)
        except BadValueError as error:
            raise DataError(f"{self._where}row {error.row + 1}: {error}") from error

    def transform_rows(self, rows: pa.RecordBatch) -> FeatureValues:
        """Return the features of rows whose schema was checked.

        Raises BadValueError for the first row with a bad value.
        """
        columns = {
            name: self._column(name, values)
            for name, values in zip(rows.schema.names, rows.columns, strict=True)
        }
        made: dict[str, IdLists | Numbers | None] = {}
        faults: list[BadValueError] = []
        for name, feature in self._features.items():
            needed = feature.columns_in(columns)
            self._check_columns(name, needed, columns)
            try:
                made[name] = feature.transform(columns) if needed else None
            except BadValueError as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: fault.row)
        return self._values(rows.num_rows, made)

    def _column(self, name: str, values: pa.Array) -> Column:
        options = self._columns.get(name) or ColumnOptions(name=name)
        return Column(with_function(values, options), options)

    def _values(self, num_rows: int, made: Mapping[str, IdLists | Numbers | None]) -> FeatureValues:
        ids: dict[str, IdLists] = {}
        dense: dict[str, Floats] = {}
        num_present: dict[str, int] = {}
        for name, feature in self._features.items():
            found = made[name]
            if feature.shape is None:
                assert not isinstance(found, Numbers)
                ids[name], num_present[name] = pad(
                    found, num_rows, feature.padding, has_weights=feature.has_weights
                )
                continue
            if found is None:
                padding = feature.padding or 0
                dense[name] = np.full((num_rows, *feature.shape), padding, np.float32)
                num_present[name] = 0
                continue
            assert isinstance(found, Numbers)
            dense[name] = found.values.reshape(num_rows, *feature.shape)
            num_present[name] = found.num_present
        return FeatureValues(num_rows=num_rows, ids=ids, dense=dense, num_present=num_present)

    def _check_columns(
        self, feature: str, needed: Sequence[str], columns: Mapping[str, Column]
    ) -> None:
        for name in needed:
            if name not in columns:
                raise DataError(
                    f"{self._where}feature {feature!r} is made of column {name!r}, which the data "
                    f"does not have; it has {', '.join(columns)}"
                )


def to_record_batch(columns: AnyColumns) -> pa.RecordBatch:
    """Return columns as one record batch; a list of lists is a column of lists."""
    if isinstance(columns, pa.RecordBatch):
        return columns
    if isinstance(columns, pa.Table):
        whole = [
            _to_array(*named) for named in zip(columns.schema.names, columns.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(whole, names=columns.schema.names)
    arrays = {name: _to_array(name, values) for name, values in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"expected columns of one length, got {lengths}")
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _to_array(name: str, values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        whole = values.combine_chunks()
        return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, np.ndarray) and values.ndim > 1:
        width = int(np.prod(values.shape[1:]))
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), width)
    try:
        return pa.array(values)
    except OverflowError:
        return _large_integers(name, values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"column {name!r}: expected values of one type: {error}") from error


def _large_integers(name: str, values: Any) -> pa.Array:
    """Return integers from 2^63 on, or lists of them, for which pyarrow finds no type itself."""
    for kind in (pa.uint64(), pa.list_(pa.uint64())):
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            continue
    raise DataError(
        f"column {name!r}: expected integers of 64 bits; those from 2^63 on are not mixed with "
        "negative ones"
    )
