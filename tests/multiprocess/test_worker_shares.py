"""Two workers in processes of their own see every sample once, also when one is killed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

NUM_ROWS = 600
CHILD = Path(__file__).parent / "reading_child.py"


def start(folder, index, *, kind, pause_s=0.0):
    ledger = folder / f"ledger-{index}"
    arguments = [folder / "data", ledger, str(index), "2", kind, str(pause_s)]
    return subprocess.Popen([sys.executable, CHILD, *arguments]), ledger


def num_entries(ledger):
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


@pytest.mark.parametrize("kind", ["DataLoader", "QueueDataset"])
@pytest.mark.parametrize("num_files", [1, 2, 3, 7])
def test_a_killed_worker_goes_on_and_no_sample_is_lost_or_seen_twice(tmp_path, num_files, kind):
    (tmp_path / "data").mkdir()
    for part in range(num_files):
        rows = range(part * NUM_ROWS // num_files, (part + 1) * NUM_ROWS // num_files)
        text = "".join(f"click:0 id:{row}\n" for row in rows)
        (tmp_path / "data" / f"part-{part}").write_text(text)
    steady, first = start(tmp_path, 0, kind=kind)
    killed, second = start(tmp_path, 1, kind=kind, pause_s=0.05)
    deadline = time.monotonic() + 120
    while num_entries(second) < 4:
        assert time.monotonic() < deadline
        assert killed.poll() is None, "it should still be reading"
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = num_entries(second)
    again, _ = start(tmp_path, 1, kind=kind)
    assert (steady.wait(timeout=120), again.wait(timeout=120)) == (0, 0)
    assert num_entries(second) > before >= 4
    ledgers = [
        [json.loads(line) for line in path.read_text().splitlines()] for path in (first, second)
    ]
    seen = [row for ledger in ledgers for entry in ledger for row in entry["ids"]]
    assert sorted(seen) == list(range(NUM_ROWS))
