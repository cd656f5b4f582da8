"""Lookups of tables as ONNX nodes: ids to rows, to pooled vectors and sequences. No torch.

It uses only common operators, no loops, so that any runtime computes them.
docs/formats/inference.md defines the results.
"""

# Shape suffixes: B samples, L ids of the longest list, N rows of a table, D width of a row.

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.embedding.layout import Combiner

LENGTHS = ".lengths"
WEIGHTS = ".weights"

Array = npt.NDArray[Any]

_UINT64, _INT64, _FLOAT = 13, 7, 1  # element types of ONNX
_HASH_START = 0x9E3779B97F4A7C15  # as native/include/fleetrec/table/id_hash.h
_HASH_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_HASH_END = 31
_DIRECT_ROWS = 2  # a table with at least one row per two ids is indexed by id


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoldedTable:
    """All rows of a table: ids_N, signed and rising, and rows_ND."""

    ids_N: npt.NDArray[np.int64]
    rows_ND: Array
    hashed_into: int | None


class LookupNodes:
    """Collects nodes and constants of a graph; every method returns the name of its result."""

    def __init__(self, *, prefix: str) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._prefix = prefix
        self._names: dict[tuple[Any, ...], str] = {}
        self._num_names = 0

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output."""
        import onnx.helper

        name = output or self._name()
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any, dtype: type[np.generic] = np.int64) -> str:
        """Add a constant; small ones are stored once."""
        import onnx.numpy_helper

        array = np.asarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 1 else None
        if key is not None and key in self._names:
            return self._names[key]
        name = self._name()
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        if key is not None:
            self._names[key] = name
        return name

    def find_rows(self, table: FoldedTable, features: Sequence[str]) -> list[str]:
        """Return the positions of the rows of ids [B, L], for each of several inputs.

        An id without a row has the position N. The ids of all features are searched at once.
        """
        flat = [self.add("Reshape", one, self.constant([-1])) for one in features]
        ids = self.add("Concat", *flat, axis=0) if len(flat) > 1 else flat[0]
        found = self._positions(table, ids)
        if len(flat) == 1:
            return [self.add("Reshape", found, self.add("Shape", features[0]))]
        results: list[str] = []
        begin = self.constant([0])
        for one, its in zip(features, flat, strict=True):
            end = self.add("Add", begin, self.add("Shape", its))
            part = self.add("Slice", found, begin, end)
            results.append(self.add("Reshape", part, self.add("Shape", one)))
            begin = end
        return results

    def rows_constant(self, table: FoldedTable) -> str:
        """Return the rows by position, with a row of zeros at the end."""
        num_direct = _num_direct(table)
        if num_direct is None:
            zeros = np.zeros((1, table.rows_ND.shape[1]), np.float32)
            return self.constant(np.concatenate([table.rows_ND, zeros]), np.float32)
        rows = np.zeros((num_direct + 1, table.rows_ND.shape[1]), np.float32)
        rows[table.ids_N] = table.rows_ND
        return self.constant(rows, np.float32)

    def present(self, ids: str, lengths: str) -> str:
        """Return which of the ids [B, L] are within the lengths [B]."""
        places = self._range(self._size(ids, 1))
        return self.add("Less", places, self.add("Unsqueeze", lengths, self.constant([1])))

    def only_present(self, positions: str, present: str, table: FoldedTable) -> str:
        """Return positions where ids that are not there have no row."""
        missing = self.constant(_num_positions(table))
        return self.add("Where", present, positions, missing)

    def pool(
        self, rows: str, positions: str, *, present: str, weights: str, combiner: Combiner
    ) -> str:
        """Return the pooled vectors [B, D] of rows at positions [B, L]."""
        its = self.add("Where", present, weights, self.constant(0.0, np.float32))
        vectors = self.add("Gather", rows, positions, axis=0)
        scaled = self.add("Mul", vectors, self.add("Unsqueeze", its, self.constant([2])))
        total = self.add("ReduceSum", scaled, self.constant([1]), keepdims=0)
        if combiner == "sum":
            return total
        if combiner == "sqrtn":
            its = self.add("Mul", its, its)
        divisor = self.add("ReduceSum", its, self.constant([1]), keepdims=1)
        if combiner == "sqrtn":
            divisor = self.add("Sqrt", divisor)
        zero = self.constant(0.0, np.float32)
        is_zero = self.add("Equal", divisor, zero)
        safe = self.add("Where", is_zero, self.constant(1.0, np.float32), divisor)
        return self.add("Where", is_zero, zero, self.add("Div", total, safe))

    def sequence(  # noqa: PLR0913 (two inputs, two outputs, and the table)
        self,
        rows: str,
        positions: str,
        lengths: str,
        *,
        table: FoldedTable,
        max_length: int | None,
        output: str,
        lengths_output: str,
    ) -> None:
        """Add a sequence [B, longest, D] of the last ids, and its lengths."""
        zero, one = self.constant(0), self.constant(1)
        num_ids = self._size(positions, 1)
        within = self.add("Min", self.add("Max", lengths, zero), num_ids)
        kept = within
        if max_length is not None:
            kept = self.add("Min", within, self.constant(max_length))
        self.add("Identity", kept, output=lengths_output)
        if max_length == 1:
            longest = one
        else:
            longest = self.add("Max", self.add("ReduceMax", kept, keepdims=0), one)
        places = self.add("Unsqueeze", self._range(longest), self.constant([0]))
        first = self.add("Unsqueeze", self.add("Sub", within, kept), self.constant([1]))
        is_there = self.add("Less", places, self.add("Unsqueeze", kept, self.constant([1])))
        # A column without rows, so that there is one to take where a list is shorter.
        missing = self.constant(_num_positions(table))
        column = self.add(
            "Expand", missing, self.add("Concat", self._sizes(lengths), self.constant([1]), axis=0)
        )
        padded = self.add("Concat", positions, column, axis=1)
        taken = self.add("Where", is_there, self.add("Add", first, places), num_ids)
        its = self.add("GatherElements", padded, taken, axis=1)
        self.add("Gather", rows, its, axis=0, output=output)

    def _positions(self, table: FoldedTable, ids: str) -> str:
        """Return the position of each id [ids]; N for unknown ones."""
        if table.hashed_into is not None:
            ids = self._hashed(ids, table.hashed_into)
        num_direct = _num_direct(table)
        if num_direct is not None:
            last = self.constant(num_direct)
            is_there = self.add(
                "And",
                self.add("GreaterOrEqual", ids, self.constant(0)),
                self.add("Less", ids, last),
            )
            return self.add("Where", is_there, ids, last)
        keys = self.constant(table.ids_N)
        number = len(table.ids_N)
        last = self.constant(number - 1)
        # The last key that is not greater, bit by bit from the highest.
        found = self.add("Mul", ids, self.constant(0))
        for bit in reversed(range((number - 1).bit_length())):
            further = self.add("Add", found, self.constant(1 << bit))
            key = self.add("Gather", keys, self.add("Min", further, last))
            found = self.add("Where", self.add("LessOrEqual", key, ids), further, found)
        found = self.add("Min", found, last)
        is_same = self.add("Equal", self.add("Gather", keys, found), ids)
        return self.add("Where", is_same, found, self.constant(number))

    def _hashed(self, ids: str, num_rows: int) -> str:
        """Return the rows that stand for ids, as native/include/fleetrec/table/id_hash.h."""
        mixed = self.add("Add", ids, self.constant(_signed(_HASH_START)))
        for shift, factor in _HASH_ROUNDS:
            mixed = self._shifted(mixed, shift)
            mixed = self.add("Mul", mixed, self.constant(_signed(factor)))
        wide = self.add("Cast", self._shifted(mixed, _HASH_END), to=_UINT64)
        rest = self.add("Mod", wide, self.constant(num_rows, np.uint64))
        is_row = self.add(
            "And",
            self.add("GreaterOrEqual", ids, self.constant(0)),
            self.add("Less", ids, self.constant(num_rows)),
        )
        return self.add("Where", is_row, ids, self.add("Cast", rest, to=_INT64))

    def _shifted(self, values: str, shift: int) -> str:
        """Return x ^ (x >> shift) of 64 bits."""
        wide = self.add("Cast", values, to=_UINT64)
        right = self.add("BitShift", wide, self.constant(shift, np.uint64), direction="RIGHT")
        return self.add("Cast", self.add("BitwiseXor", wide, right), to=_INT64)

    def _range(self, size: str) -> str:
        return self.add("Range", self.constant(0), size, self.constant(1))

    def _sizes(self, values: str) -> str:
        return self.add("Shape", values)

    def _size(self, values: str, axis: int) -> str:
        """Return one size of a value, as a scalar."""
        return self.add("Gather", self._sizes(values), self.constant(axis))

    def _name(self) -> str:
        self._num_names += 1
        return f"{self._prefix}{self._num_names}"


def _num_direct(table: FoldedTable) -> int | None:
    """Return up to which id rows are stored by id; None: ids are searched."""
    number = len(table.ids_N)
    if not number:
        return 0
    first, last = int(table.ids_N[0]), int(table.ids_N[-1])
    return last + 1 if first >= 0 and last < _DIRECT_ROWS * number else None


def _num_positions(table: FoldedTable) -> int:
    num_direct = _num_direct(table)
    return len(table.ids_N) if num_direct is None else num_direct


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
