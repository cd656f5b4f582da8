"""A table is saved and taken up from where its rows are: nothing is held twice."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]

PROGRAM = """
import resource, sys
from pathlib import Path
import torch
from fleetrec.checkpoint.folder import write_folder
from fleetrec.checkpoint.table_view import open_tables
from fleetrec.checkpoint.tables import TABLES
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig

def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def fill(staging):
    record = store.write(Path(staging.url) / "phase/tables/t", parent=None).record
    return {TABLES: {"phase": {"t": record.to_plain()}}}

store = NativeStore(TableConfig(name="t", dim=32), RowOptimizer(name="adam"), seed=0)
for first in range(0, 1_000_000, 10_000):
    store.pull(torch.arange(first, first + 10_000), create=True)
grown = [peak_bytes()]
write_folder(Path("checkpoint"), contents={}, meta={"kind": "checkpoint"}, fill=fill)
grown.append(peak_bytes())
(table,) = open_tables(Path("checkpoint")).values()
assert len(table.get([5, 999_999])) == 2
grown.append(peak_bytes())
print(store.table.stats()["bytes"], *grown)
"""


def test_saving_a_table_and_looking_into_it_need_no_second_copy(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    table, built, saved, looked = map(int, done.stdout.split())
    assert table > 400 * 2**20
    assert saved - built < table / 10
    assert looked - built < table / 10
    assert len(list(Path(tmp_path, "checkpoint/phase/tables/t").iterdir())) > 1
