"""Look into the tables of a checkpoint: figures, single rows, differences, Parquet files."""

# Shape suffixes: N rows, D width of a row.

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load

from fleetrec.checkpoint.folder import Folder
from fleetrec.core.errors import CheckpointError

Array = npt.NDArray[Any]
COLUMNS = ("id", "vector", "show", "click", "last_seen")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableView:
    """The rows of one table, ordered by unsigned id."""

    ids: npt.NDArray[np.uint64]
    rows: Array
    shows: Array
    clicks: Array
    last_seen: Array
    num_candidates: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, wanted: int) -> int | None:
        """Return the place of an id, or None."""
        at = int(np.searchsorted(self.ids, np.uint64(wanted)))
        return at if at < len(self) and int(self.ids[at]) == wanted else None

    def norms(self) -> Array:
        """Return the length of every row."""
        return np.asarray(np.linalg.norm(self.rows, axis=1))

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table of id, vector, show, click, last_seen."""
        width = self.rows.shape[1]
        values = pa.array(np.ascontiguousarray(self.rows).reshape(-1))
        vector = pa.FixedSizeListArray.from_arrays(values, width)
        columns = (self.ids, vector, self.shows, self.clicks, self.last_seen)
        return pa.table(dict(zip(COLUMNS, map(pa.array, columns), strict=True)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """What became of one table from one checkpoint to another."""

    only_before: npt.NDArray[np.uint64]
    only_after: npt.NDArray[np.uint64]
    common: npt.NDArray[np.uint64]
    distances: Array  # of the common rows

    @property
    def num_changed(self) -> int:
        """Return how many of the common rows moved."""
        return int((self.distances > 0).sum())


def table_names(folder: Folder) -> list[str]:
    """Return ``phase/table`` of every table in a checkpoint."""
    found = [name for name in folder.files if "/tables/" in name]
    return [name.replace("/tables/", "/").removesuffix(".safetensors") for name in found]


def read_table(folder: Folder, name: str) -> TableView:
    """Read one table, called ``phase/table`` as in ``table_names``."""
    phase, _, table = name.partition("/")
    file = f"{phase}/tables/{table}.safetensors"
    if file not in folder.files:
        known = ", ".join(table_names(folder)) or "none"
        raise CheckpointError(f"{folder.path}: no table {name!r}; known: {known}")
    arrays = load(folder.read_bytes(file))
    return TableView(
        ids=arrays["ids"].view(np.uint64),
        rows=arrays["rows"],
        shows=arrays["shows"],
        clicks=arrays["clicks"],
        last_seen=arrays["last_seen"],
        num_candidates=len(arrays["candidate_ids"]),
    )


def compare(before: TableView, after: TableView) -> Difference:
    """Return what came, went and moved."""
    if before.rows.shape[1] != after.rows.shape[1]:
        raise CheckpointError(
            f"rows are {before.rows.shape[1]} wide in one table, {after.rows.shape[1]} in the other"
        )
    common, at_before, at_after = np.intersect1d(
        before.ids, after.ids, assume_unique=True, return_indices=True
    )
    return Difference(
        only_before=np.setdiff1d(before.ids, after.ids, assume_unique=True),
        only_after=np.setdiff1d(after.ids, before.ids, assume_unique=True),
        common=common,
        distances=np.linalg.norm(before.rows[at_before] - after.rows[at_after], axis=1),
    )


def write_parquet(view: TableView, path: Path) -> None:
    """Write the rows to a Parquet file."""
    pq.write_table(view.to_arrow(), path)
