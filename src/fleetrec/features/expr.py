"""A number that is computed from those of several columns."""

from collections.abc import Mapping

import numpy as np

from fleetrec.config.features import FeatureOptions
from fleetrec.core.errors import DataError
from fleetrec.core.expression import Expression
from fleetrec.features.column import Column
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.values import Numbers


class ExprFeature(DeclaredFeature, name="expr"):
    """The value of an expression over columns, by their names."""

    def __init__(self, options: FeatureOptions) -> None:
        super().__init__(options)
        self._expression = Expression(options.expression)
        unknown = [name for name in self._expression.names if name not in options.columns]
        if unknown:
            raise DataError(
                f"feature {options.name}: the expression names {unknown[0]!r}, which is none of "
                f"its columns: {', '.join(options.columns)}"
            )

    def transform(self, columns: Mapping[str, Column]) -> Numbers:
        """Return one number per row."""
        names = self.options.columns
        read = {name: columns[name].numbers(width=1, separator="") for name in names}
        values = {name: numbers[:, 0] for name, (numbers, _) in read.items()}
        num_present = min(count for _, count in read.values())
        num_rows = len(columns[names[0]])
        found = np.broadcast_to(self._expression(values), (num_rows,)).reshape(-1, 1)
        bad = np.flatnonzero(~np.isfinite(found[:, 0]))
        if len(bad):
            column = columns[names[0]]
            text = f"the expression of {self.options.name} has no finite value"
            raise column.bad(int(bad[0]), column.raw[int(bad[0])], text)
        return Numbers(values=np.ascontiguousarray(found), num_present=num_present)
