"""The rows of an inference model in files of bounded size; docs/formats/inference.md. No torch."""

# Shape suffixes: N ids, D width of a row.

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fleetrec.checkpoint.folder import Folder, describe
from fleetrec.checkpoint.staging import Staging
from fleetrec.config.rules import RowType
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.core.fault_points import fault_point
from fleetrec.export.manifest import Content, TableEntry

Array = npt.NDArray[Any]
IdArray = npt.NDArray[np.uint64]

MAX_FILE_BYTES = 16 * 2**20
_HEADER_BYTES = 1024  # more than safetensors needs to describe two tensors
_ID_BYTES = 8
_FLOAT_BYTES = 4
_MAX_INT8 = 127
_TYPES = MappingProxyType({"float32": np.float32, "float16": np.float16, "int8": np.int8})


class RowWriter:
    """Writes the rows of one table into a staging folder, a file at a time.

    Args:
        staging: The folder.
        table: The name of the table.
        dim: The width of a row.
        row_type: The type of the numbers in files. Rows of int8 have a scale each.
        max_bytes: The size of a file.
    """

    def __init__(
        self,
        staging: Staging,
        table: str,
        *,
        dim: int,
        row_type: RowType = "float32",
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self.files: dict[str, dict[str, Any]] = {}  # entries in the manifest
        self._staging = staging
        self._table = table
        self._dim = dim
        self._row_type: RowType = row_type
        room = max(1, max_bytes - _HEADER_BYTES)
        # Of float32, as rows are in memory; files of other types are smaller.
        self._rows_per_file = max(1, room // (_ID_BYTES + _FLOAT_BYTES * dim))
        self._ids_per_file = max(1, room // _ID_BYTES)
        self._ids_N: IdArray = np.zeros(0, np.uint64)  # of the file that is being filled
        self._rows_ND: Array = np.zeros((0, dim), np.float32)
        self._num_waiting = 0
        self._num_rows = 0
        self._num_removed = 0
        self._names: dict[str, list[str]] = {"rows": [], "removed": [], "scores": []}

    def add(self, ids_N: IdArray, rows_ND: Array) -> None:
        """Add rows; ids come in any order, each of them once."""
        if not len(self._ids_N) and len(ids_N):
            self._ids_N = np.empty(self._rows_per_file, np.uint64)
            self._rows_ND = np.empty((self._rows_per_file, self._dim), np.float32)
        begin = 0
        while begin < len(ids_N):
            first = self._num_waiting
            count = min(len(ids_N) - begin, self._rows_per_file - first)
            self._ids_N[first : first + count] = ids_N[begin : begin + count]
            self._rows_ND[first : first + count] = rows_ND[begin : begin + count]
            self._num_waiting += count
            begin += count
            if self._num_waiting == self._rows_per_file:
                self._write_rows()

    def add_scores(self, ids_N: IdArray, scores_N: Array) -> None:
        """Add the scores of rows, for the deltas that follow this model."""
        if len(ids_N):
            order_N = np.argsort(ids_N)
            scores_N = scores_N[order_N].astype(np.float32)
            self._write("scores", {"ids": ids_N[order_N], "scores": scores_N})

    def remove(self, ids_N: IdArray) -> None:
        """Add ids that have no row any more; call it once."""
        ids_N = np.sort(ids_N)
        self._num_removed = len(ids_N)
        for begin in range(0, len(ids_N), self._ids_per_file):
            self._write("removed", {"ids": ids_N[begin : begin + self._ids_per_file]})

    def finish(self, *, content: Content, hashed_into: int | None) -> TableEntry:
        """Write what is left; returns the entry of the table in the manifest."""
        if self._num_waiting:
            self._write_rows()
        return TableEntry(
            dim=self._dim,
            row_type=self._row_type,
            hashed_into=hashed_into,
            content=content,
            num_rows=self._num_rows,
            num_removed=self._num_removed,
            rows=tuple(self._names["rows"]),
            removed=tuple(self._names["removed"]),
            scores=tuple(self._names["scores"]),
        )

    def _write_rows(self) -> None:
        ids_N, rows_ND = self._ids_N[: self._num_waiting], self._rows_ND[: self._num_waiting]
        order_N = np.argsort(ids_N)
        ids_N[:] = ids_N[order_N]
        rows_ND[:] = rows_ND[order_N]  # in place: the sorted copy is gone before it is encoded
        self._write("rows", {"ids": ids_N, **_encoded(rows_ND, self._row_type)})
        self._num_rows += len(ids_N)
        self._num_waiting = 0
        fault_point("serving_rows")

    def _write(self, kind: str, arrays: Mapping[str, Array]) -> None:
        names = self._names[kind]
        name = f"tables/{self._table}/{kind}-{len(names):05d}.safetensors"
        content = save({key: np.ascontiguousarray(array) for key, array in arrays.items()})
        storage.write_bytes(storage.join(self._staging.url, name), content)
        self.files[name] = describe(content)
        names.append(name)


def read_rows(folder: Folder, table: TableEntry) -> Iterator[tuple[IdArray, Array]]:
    """Yield ids_N and rows_ND of a table, file by file, each checked against its checksum."""
    for name in table.rows:
        arrays = _read(folder, name)
        ids_N, rows_ND = arrays.get("ids"), arrays.get("rows")
        scales_N = arrays.get("scales")
        if ids_N is None or rows_ND is None or not _fits(ids_N, rows_ND, scales_N, table):
            raise CheckpointError(
                f"{storage.shown(folder.url_of(name))}: damaged: expected ids and rows of width "
                f"{table.dim}"
            )
        yield ids_N, _decoded(rows_ND, scales_N)


def read_removed(folder: Folder, table: TableEntry) -> IdArray:
    """Return the ids that have no row any more."""
    found: list[IdArray] = [np.zeros(0, np.uint64)]
    for name in table.removed:
        ids_N = _read(folder, name).get("ids")
        if ids_N is None or ids_N.dtype != np.uint64 or ids_N.ndim != 1:
            raise CheckpointError(f"{storage.shown(folder.url_of(name))}: damaged: expected ids")
        found.append(ids_N)
    return np.concatenate(found)


def read_scores(folder: Folder, table: TableEntry) -> Iterator[tuple[IdArray, Array]]:
    """Yield ids_N and scores_N of rows, file by file; nothing if the table has no scores."""
    for name in table.scores:
        arrays = _read(folder, name)
        ids_N, scores_N = arrays.get("ids"), arrays.get("scores")
        if ids_N is None or scores_N is None or len(ids_N) != len(scores_N):
            where = storage.shown(folder.url_of(name))
            raise CheckpointError(f"{where}: damaged: expected ids and scores")
        yield ids_N, scores_N


def _read(folder: Folder, name: str) -> dict[str, Array]:
    try:
        return load(folder.read_bytes(name))
    except SafetensorError as error:
        raise CheckpointError(f"{storage.shown(folder.url_of(name))}: damaged: {error}") from error


def _fits(ids_N: Array, rows_ND: Array, scales_N: Array | None, table: TableEntry) -> bool:
    has_scales = scales_N is not None and scales_N.shape == ids_N.shape
    return (
        ids_N.dtype == np.uint64
        and rows_ND.dtype == _TYPES[table.row_type]
        and ids_N.ndim == 1
        and rows_ND.shape == (len(ids_N), table.dim)
        and has_scales == (table.row_type == "int8")
    )


def _encoded(rows_ND: Array, row_type: RowType) -> dict[str, Array]:
    """Return rows as they are stored; those of int8 are multiples of their scale."""
    if row_type == "float32":
        return {"rows": rows_ND}
    if row_type == "float16":
        largest = np.finfo(np.float16).max
        return {"rows": np.clip(rows_ND, -largest, largest).astype(np.float16)}
    scales_N = (np.abs(rows_ND).max(axis=1) / _MAX_INT8).astype(np.float32)
    divisors_N = np.where(scales_N > 0, scales_N, np.float32(1))
    rounded_ND = np.rint(rows_ND / divisors_N[:, None])
    return {"rows": rounded_ND.clip(-_MAX_INT8, _MAX_INT8).astype(np.int8), "scales": scales_N}


def _decoded(rows_ND: Array, scales_N: Array | None) -> Array:
    """Return rows as float32."""
    rows_ND = rows_ND.astype(np.float32, copy=False)
    return rows_ND if scales_N is None else rows_ND * scales_N[:, None]
