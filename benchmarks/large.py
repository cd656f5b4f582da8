"""``make bench-large``: a table of a hundred million rows, its speed and its memory."""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.figure import Figure
from benchmarks.run import TABLE_WIDTH, positive, to_table
from benchmarks.store import new_table, scatter_ids
from fleetrec._native import BatchLookup

NUM_ROWS = 100_000_000
DIM = 8
BATCH = 1_000_000
NUM_LOOKUPS = 20
MAX_BYTES = 48  # per row, beyond weights and state
ROW_BYTES = 4 * DIM + 4  # weights, and the one sum of row-wise Adagrad


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a table, look ids up in it, and print what that took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--rows", type=positive, default=NUM_ROWS)
    asked = parser.parse_args(arguments)
    Console(width=TABLE_WIDTH).print(to_table(measure(num_rows=asked.rows)))


def measure(*, num_rows: int) -> list[Figure]:
    """Insert rows in batches, then read random ones; bytes are counted, and seen by the system."""
    rss_before = _rss_bytes()
    table = new_table(dim=DIM, optimizer="rowwise_adagrad")
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
    del lookup, vectors, ids_N, offsets  # what is left is the table
    gc.collect()
    rows = len(table)
    counted, grown = table.stats()["bytes"], _rss_bytes() - rss_before
    return [
        _pace("large: insert, median over longest batch", inserted, batch),
        _pace("large: look up and pool", found, batch),
        _overhead("large: bytes per row beyond weights and state, counted", counted / rows),
        _overhead("large: the same by growth of resident memory", grown / rows),
    ]


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
