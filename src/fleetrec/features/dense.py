"""Numbers of a fixed shape, with the rules of slots."""

import math
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fleetrec.config.features import DenseOptions
from fleetrec.features.column import BadValueError, Column
from fleetrec.features.column_cells import holds_numbers, text_cell_numbers, typed_numbers
from fleetrec.features.feature import Feature
from fleetrec.features.text import is_text
from fleetrec.features.values import Floats, Numbers


class DenseFeature(Feature, name="dense"):
    """Numbers of one column, or one number each of numbered columns (x1, or x_1)."""

    def __init__(self, options: DenseOptions) -> None:
        self.options = options
        self.shape: tuple[int, ...] = options.shape
        self.padding = options.padding

    def columns_in(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the column of the same name, or all numbered ones, or none."""
        name = self.options.name
        if name in names:
            return (name,)
        for mark in ("", "_"):
            numbered = tuple(f"{name}{mark}{i + 1}" for i in range(math.prod(self.shape)))
            if all(one in names for one in numbered):
                return numbered
        return ()

    def type_problem(self, kind: pa.DataType) -> str | None:
        """Refuse types that have no numbers."""
        is_parsed = is_text(kind) and self.options.list_separator is not None
        if is_parsed or holds_numbers(kind):
            return None
        return f"a dense feature is made of numbers or lists of them, got {kind}; cast the column"

    def transform(self, columns: Mapping[str, Column]) -> Numbers:
        """Return the numbers; raises BadValueError for the first row with a bad one."""
        names = self.columns_in(columns)
        width = math.prod(self.shape) if len(names) == 1 else 1
        found: list[tuple[Floats, npt.NDArray[np.generic]]] = []
        faults: list[BadValueError] = []
        for name in names:
            try:
                found.append(self._numbers(columns[name], width))
            except BadValueError as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: fault.row)
        if len(found) == 1:
            values, present = found[0]
        else:
            values = np.concatenate([numbers for numbers, _ in found], axis=1)
            present = np.logical_or.reduce([is_there for _, is_there in found])
        return Numbers(values=values, num_present=int(np.count_nonzero(present)))

    def _numbers(self, column: Column, width: int) -> tuple[Floats, npt.NDArray[np.generic]]:
        options = self.options
        if not is_text(column.raw.type):
            return typed_numbers(column, width=width, padding=options.padding)
        separator = options.list_separator.encode() if options.list_separator else None
        return text_cell_numbers(
            column, list_separator=separator, width=width, padding=options.padding
        )
