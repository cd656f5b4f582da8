"""A table with max_rows keeps its memory however many ids pass through it."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]

MAX_GROWTH = 1.05

# Ten million ids, each seen in one pass; rows are bounded to a million. Prints resident bytes after
# every pass.
PROGRAM = """
import shutil, sys
from pathlib import Path
import numpy as np
from fleetrec._native import BatchLookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Admission, Eviction, RowOptimizer, TableConfig

NUM_IDS, DIM, PASS_SECONDS, PASSES_PER_DAY = 100_000, 8, 3600, 24

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

admission = Admission() if sys.argv[1] == "always" else Admission(kind="count", threshold=2)
eviction = Eviction(max_rows=1_000_000, max_unseen_days=1)
table = TableConfig(name="t", dim=DIM, admission=admission, eviction=eviction)
store = NativeStore(table, RowOptimizer(name="adagrad"), seed=0)
lookup = BatchLookup([store.table], [(0, 0, "sum")], [])
rng = np.random.default_rng(0)
offsets = np.arange(NUM_IDS + 1, dtype=np.int64)
grads = np.ones((NUM_IDS, DIM), np.float32)
for number in range(100):
    ids = rng.integers(-2**63, 2**63, NUM_IDS, dtype=np.int64)
    now = number * PASS_SECONDS
    for _ in range(int(admission.threshold)):
        lookup.find(ids, offsets, NUM_IDS, training=True, now=now)
        lookup.apply(grads, lr=0.1)
    if sys.argv[1] == "count":  # as many ids again that never get a row
        once = rng.integers(-2**63, 2**63, NUM_IDS, dtype=np.int64)
        lookup.find(once, offsets, NUM_IDS, training=True, now=now)
    store.evict(now=now, ends_day=number % PASSES_PER_DAY == PASSES_PER_DAY - 1)
    if sys.argv[2] == "saved":
        folder = Path(f"saved/{number}")
        store.write(folder, parent=f"../{number - 1}" if number else None).commit()
        shutil.rmtree(folder)  # not needed, and a gigabyte together
    assert len(store) <= 1_000_000
    print(resident_bytes(), flush=True)
assert store.table.stats()["created"] == 10_000_000
"""


def resident_after_passes(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    sizes = [int(line) for line in done.stdout.split()]
    shown = ", ".join(f"{size / 2**20:.0f}" for size in sizes[9::10])
    sys.stdout.write(f"{' '.join(arguments)}: resident MiB after every million ids: {shown}\n")
    return sizes


@pytest.mark.parametrize("saved", ["unsaved", "saved"])
def test_ten_million_ids_pass_through_a_million_rows_in_flat_memory(saved, tmp_path):
    sizes = resident_after_passes(tmp_path, "always", saved)
    full = max(sizes[10:20])  # the table has reached its bound, and rows were evicted
    assert max(sizes[20:]) <= MAX_GROWTH * full


def test_ids_that_wait_for_admission_are_forgotten(tmp_path):
    """Counters age by days: memory is that of the ids of two days."""
    sizes = resident_after_passes(tmp_path, "count", "unsaved")
    assert max(sizes[72:]) <= MAX_GROWTH * max(sizes[:72])
