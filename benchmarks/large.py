"""``make bench-large``: a table of a hundred million rows: its speed, its memory, its files."""

# Shape suffixes: N ids, D width of a row.

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from benchmarks.figure import Figure
from benchmarks.run import TABLE_WIDTH, positive, to_table
from benchmarks.store import GROWTH_ROWS, LR, measure_growth, new_table, scatter_ids
from fleetrec._native import BatchLookup, Cut, Table, read_snapshot

NUM_ROWS = 100_000_000
DIM = 8
OPTIMIZER = "rowwise_adagrad"
BATCH = 1_000_000
NUM_LOOKUPS = 20
NUM_SHARDS = 16
MAX_BYTES = 48  # per row, beyond weights and state
ROW_BYTES = 4 * DIM + 4  # weights, and the one sum of row-wise Adagrad


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a table, look ids up in it, save and load it, and print what that took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--rows", type=positive, default=NUM_ROWS)
    asked = parser.parse_args(arguments)
    Console(width=TABLE_WIDTH).print(to_table(measure(num_rows=asked.rows)))


def measure(*, num_rows: int) -> list[Figure]:
    """Let a table grow, then make a large one, read it, and take it to files and back."""
    figures = [measure_growth(num_rows=min(num_rows, GROWTH_ROWS))]
    gc.collect()
    rss_before = _rss_bytes()
    table = new_table(dim=DIM, optimizer=OPTIMIZER)
    figures += _fill_and_look_up(table, num_rows)
    counted, grown = table.stats()["bytes"], _rss_bytes() - rss_before
    figures += [
        _overhead("large: bytes per row beyond weights and state, counted", counted / len(table)),
        _overhead("large: the same by growth of resident memory", grown / len(table)),
    ]
    sample = Sample(table)
    with tempfile.TemporaryDirectory(prefix="fleetrec-large-") as folder:
        figures.append(_save(table, Path(folder)))
        num_saved = len(table)
        del table  # there is room for one only
        gc.collect()
        loaded, figure = _load(Path(folder))
    assert len(loaded) == num_saved, f"{len(loaded)} of {num_saved} rows came back"
    sample.check(loaded)
    return [*figures, figure]


class Sample:
    """Some rows of a table: half of them moved by a gradient, half as they were made."""

    def __init__(self, table: Table) -> None:
        rng = np.random.default_rng(1)
        ids_N = scatter_ids(np.unique(rng.integers(0, len(table), 2 * BATCH)))
        self._moved_N, self._first_N = np.array_split(rng.permutation(ids_N), 2)
        grads_ND = rng.normal(size=(len(self._moved_N), DIM)).astype(np.float32)
        table.push(self._moved_N, grads_ND, lr=LR)
        self._moved_ND = table.pull(self._moved_N, create=False)

    def check(self, table: Table) -> None:
        """Compare bit for bit; first values are a function of the id alone."""
        first_ND = new_table(dim=DIM, optimizer=OPTIMIZER).pull(self._first_N, create=True)
        _check_equal(table.pull(self._first_N, create=False), first_ND)
        _check_equal(table.pull(self._moved_N, create=False), self._moved_ND)


def _fill_and_look_up(table: Table, num_rows: int) -> list[Figure]:
    lookup = BatchLookup([table], [(0, 0, "sum")], [])
    batch = min(BATCH, num_rows)
    offsets = np.arange(batch + 1)
    inserted = []
    for first in range(0, num_rows - batch + 1, batch):
        ids_N = scatter_ids(np.arange(first, first + batch))
        begin = time.perf_counter()
        lookup.find(ids_N, offsets, batch, training=True)
        inserted.append(time.perf_counter() - begin)
    rng = np.random.default_rng(0)
    vectors = np.empty((batch, DIM), np.float32)
    found = []
    for _ in range(NUM_LOOKUPS):
        ids_N = scatter_ids(rng.integers(0, len(table), batch))
        begin = time.perf_counter()
        lookup.find(ids_N, offsets, batch, training=False)
        lookup.pool(vectors)
        found.append(time.perf_counter() - begin)
    assert vectors.any(axis=1).all(), "some rows were not found"
    return [
        _pace("large: insert, median over longest batch", inserted, batch),
        _pace("large: look up and pool", found, batch),
    ]


def _save(table: Table, folder: Path) -> Figure:
    begin = time.perf_counter()
    stats = Cut(table).write(folder, kind="base", num_shards=NUM_SHARDS, sync=True)
    speed = stats["rows"] / (time.perf_counter() - begin)
    megabytes = stats["bytes"] / stats["rows"] * speed / 1e6
    return Figure(
        name=f"large: write a base, on the disk ({megabytes:,.0f} MB/s)",
        values=[speed],
        unit="rows/s",
    )


def _load(folder: Path) -> tuple[Table, Figure]:
    table = new_table(dim=DIM, optimizer=OPTIMIZER)
    begin = time.perf_counter()
    stats = read_snapshot(table, [folder])
    speed = stats["rows"] / (time.perf_counter() - begin)
    return table, Figure(name="large: read the base", values=[speed], unit="rows/s")


def _check_equal(found_ND: npt.NDArray[np.float32], expected_ND: npt.NDArray[np.float32]) -> None:
    num_wrong = int((found_ND != expected_ND).any(axis=1).sum())
    assert num_wrong == 0, f"{num_wrong} of {len(expected_ND)} rows came back changed"


def _pace(name: str, seconds: Sequence[float], batch: int) -> Figure:
    return Figure(
        name=name,
        values=[batch / s for s in seconds],
        unit="rows/s",
        ratios=[statistics.median(seconds) / max(seconds)],
    )


def _overhead(name: str, bytes_per_row: float) -> Figure:
    beyond = bytes_per_row - ROW_BYTES
    limits = [MAX_BYTES / beyond] if beyond > 0 else []
    return Figure(name=name, values=[beyond], unit="bytes", ratios=limits, target=1.0)


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
