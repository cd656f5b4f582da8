"""Files much larger than what a run may hold in memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from making import make_job, make_slot_text, write_job

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]

GIB = 1 << 30


def grow_file(path: Path, num_bytes: int) -> Path:
    """Repeat some slot text; the table stays small, only the file grows."""
    text = make_slot_text(20_000).replace("\n", f" note:{'x' * 300}\n").encode()
    path.parent.mkdir()
    with path.open("wb") as stream:
        for _ in range(-(-num_bytes // len(text))):
            stream.write(text)
    return path


def peak_bytes(config: Path) -> int:
    """Train in a process of its own and return the most memory it ever had."""
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from making import run\n"
        f"run({str(config)!r})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=config.parent,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(done.stderr.split()[-1])


def test_a_file_of_a_gigabyte_trains_in_constant_memory(tmp_path):
    peaks = []
    for name, num_bytes in (("small", GIB // 32), ("large", GIB)):
        data = grow_file(tmp_path / name / "part-0", num_bytes)
        job = make_job(data.parent, epochs=1, batch_size=8192, print_interval=500)
        peaks.append(peak_bytes(write_job(job, tmp_path / f"{name}.yaml")))
    assert peaks[1] < peaks[0] + 64 * (1 << 20)


def test_a_broken_token_far_into_a_file_is_found(tmp_path, monkeypatch):
    from fleetrec.core.errors import DataError
    from making import run

    monkeypatch.chdir(tmp_path)
    lines = make_slot_text(100_000).splitlines(keepends=True)
    lines[70_000] = lines[70_000].replace("2:", "2;")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/part-0").write_text("".join(lines))
    config = write_job(make_job(tmp_path / "data", batch_size=4096), tmp_path / "config.yaml")
    with pytest.raises(DataError, match=r"data/part-0:70001: column \d+: '2;\d+': expected slot"):
        run(config)
