"""Inspect tables on disk: statistics, single rows, differences, Parquet files.

Rows are read block by block from the files of a checkpoint or of a bare table folder; only a
difference needs the rows of both tables in memory.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fleetrec._native import fold_ids
from fleetrec.checkpoint.folder import is_published, open_folder
from fleetrec.checkpoint.tables import stored_tables, table_parts
from fleetrec.core.errors import CheckpointError
from fleetrec.core.storage import (
    list_names,
    local_copy,
    name_of,
    sizes_below,
    to_url,
    writing,
)
from fleetrec.embedding.record import Chain, TableRecord
from fleetrec.embedding.snapshot import (
    SUFFIX,
    Columns,
    find_rows,
    live_candidates,
    live_rows,
    open_shards,
)

Array = npt.NDArray[Any]
COLUMNS = ("id", "vector", "show", "click", "last_seen")
NUM_TOP = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableView:
    """A table on disk; a bare table folder has no record."""

    chain: Chain
    record: TableRecord | None = None

    @property
    def dim(self) -> int:
        """Return the width of a row."""
        if self.record is not None:
            return self.record.identity.dim
        with local_copy(self.chain.urls[-1]) as directory:
            return int(open_shards(directory)[0].header["dim"])

    def blocks(self) -> Iterator[Columns]:
        """Yield all rows, block by block."""
        return live_rows(self.chain)

    def get(self, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return the rows of those ids that have one."""
        kept_as = {one: self._row_id(one) for one in ids}
        found = find_rows(self.chain, set(kept_as.values()))
        return {one: found[row_id] for one, row_id in kept_as.items() if row_id in found}

    def _row_id(self, one: int) -> int:
        identity = None if self.record is None else self.record.identity
        if identity is None or identity.num_rows is None or identity.out_of_range == "error":
            return one
        bits = np.array([one], np.uint64).view(np.int64)
        return int(fold_ids(bits, num_rows=identity.num_rows)[0])

    def num_candidates(self) -> int:
        """Return how many ids wait for admission."""
        if self.record is not None:
            return self.record.candidates
        return sum(len(block["ids"]) for block in live_candidates(self.chain))

    def num_bytes(self) -> int:
        """Return the bytes of all its files."""
        sizes = [file for url in self.chain.urls for file in sizes_below(url).items()]
        return sum(num_bytes for name, num_bytes in sizes if name.endswith(SUFFIX))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Statistics of the rows of a table, and the rows with the most impressions."""

    norms: Array
    shows: Array
    clicks: Array
    top_ids: npt.NDArray[np.uint64]
    top_shows: Array
    top_clicks: Array
    top_norms: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of a table between two checkpoints."""

    only_before: npt.NDArray[np.uint64]
    only_after: npt.NDArray[np.uint64]
    common: npt.NDArray[np.uint64]
    distances: Array  # of the common rows

    @property
    def num_changed(self) -> int:
        """Return how many of the common rows changed."""
        return int((self.distances > 0).sum())


def open_tables(url: str | Path) -> dict[str, TableView]:
    """Return the tables of a checkpoint as ``phase/table``, or the one of a bare table folder."""
    url = to_url(url)
    if not is_published(url) and any(name.endswith(SUFFIX) for name in list_names(url)):
        return {name_of(url): TableView(chain=Chain(urls=(url,)))}
    folder = open_folder(url, kind="checkpoint")
    return {
        f"{part}/{name}": TableView(chain=stored.chain, record=stored.record)
        for part in table_parts(folder)
        for name, stored in stored_tables(folder, part).items()
    }


def summarize(table: TableView) -> Summary:
    """Read all rows once."""
    numbers: dict[str, list[Array]] = {"norms": [], "shows": [], "clicks": []}
    top: dict[str, Array] = {"ids": np.zeros(0, np.uint64)}
    top |= {name: np.zeros(0, np.float32) for name in numbers}
    for block in table.blocks():
        seen = {
            "ids": block["ids"],
            "norms": np.linalg.norm(block["rows"], axis=1),
            "shows": block["shows"],
            "clicks": block["clicks"],
        }
        for name, kept in numbers.items():
            kept.append(seen[name])
        both = {name: np.concatenate([top[name], seen[name]]) for name in top}
        order = np.lexsort((both["ids"], -both["shows"]))[:NUM_TOP]
        top = {name: column[order] for name, column in both.items()}
    return Summary(
        **{name: np.concatenate([top[name][:0], *kept]) for name, kept in numbers.items()},
        **{f"top_{name}": column for name, column in top.items()},
    )


def compare(before: TableView, after: TableView) -> Difference:
    """Return the rows that were added, removed and changed."""
    if before.dim != after.dim:
        raise CheckpointError(
            f"rows are {before.dim} wide in {before.chain.name}, {after.dim} in {after.chain.name}"
        )
    (ids_before, rows_before), (ids_after, rows_after) = (_all_rows(t) for t in (before, after))
    common, at_before, at_after = np.intersect1d(
        ids_before, ids_after, assume_unique=True, return_indices=True
    )
    return Difference(
        only_before=np.setdiff1d(ids_before, ids_after, assume_unique=True),
        only_after=np.setdiff1d(ids_after, ids_before, assume_unique=True),
        common=common,
        distances=np.linalg.norm(rows_before[at_before] - rows_after[at_after], axis=1),
    )


def write_parquet(table: TableView, url: str | Path) -> int:
    """Write the rows to a Parquet file, in the order of the table's files; returns how many."""
    vector = pa.list_(pa.float32(), table.dim)
    types = (pa.uint64(), vector, pa.float32(), pa.float32(), pa.uint32())
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    num_rows = 0
    with writing(to_url(url)) as path, pq.ParquetWriter(path, schema) as writer:
        for block in table.blocks():
            writer.write_batch(_to_arrow(block, schema))
            num_rows += len(block["ids"])
    return num_rows


def _to_arrow(block: Columns, schema: pa.Schema) -> pa.RecordBatch:
    values = pa.array(np.ascontiguousarray(block["rows"]).reshape(-1))
    vector = pa.FixedSizeListArray.from_arrays(values, type=schema.field("vector").type)
    others = [pa.array(block[name]) for name in ("shows", "clicks", "last_seen")]
    return pa.record_batch([pa.array(block["ids"]), vector, *others], schema=schema)


def _all_rows(table: TableView) -> tuple[npt.NDArray[np.uint64], Array]:
    ids, rows = [np.zeros(0, np.uint64)], [np.zeros((0, table.dim), np.float32)]
    for block in table.blocks():
        ids.append(block["ids"])
        rows.append(block["rows"])
    return np.concatenate(ids), np.concatenate(rows)
