"""Workers in processes of their own deal their samples between them."""

import json
import subprocess
import sys
from pathlib import Path

NUM_ROWS = 500
CHILD = Path(__file__).parent / "shuffling_child.py"


def shuffle(tmp_path, name, world):
    command = [sys.executable, CHILD, tmp_path / name]
    children = [
        subprocess.Popen(
            [*command, str(rank), str(world), tmp_path / "data"], stdout=subprocess.PIPE, text=True
        )
        for rank in range(world)
    ]
    outputs = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0] * world
    return [json.loads(output) for output in outputs]


def test_a_global_shuffle_over_processes_loses_nothing(tmp_path):
    (tmp_path / "data").mkdir()
    lines = [f"click:0 id:{row} d:{row}" for row in range(NUM_ROWS)]
    (tmp_path / "data" / "part").write_text("\n".join(lines))
    shares = shuffle(tmp_path, "one", 3)
    rows = [row for share in shares for row in share]
    assert sorted(i for i, _ in rows) == list(range(NUM_ROWS))
    assert all(i == d for i, d in rows)
    assert all(max(i for i, _ in share) - min(i for i, _ in share) > 300 for share in shares)
    assert shuffle(tmp_path, "two", 3) == shares
