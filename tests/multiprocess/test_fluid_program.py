"""A program of Fluid with nothing but its imports changed: alone, and with servers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.multiprocess


@pytest.fixture(autouse=True)
def own_python(monkeypatch):
    """Let ``python``, which the program calls its reader with, be the one of the tests."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


ROOT = Path(__file__).parents[2]
LAUNCH = ("-m", "fleetrec.launch_ps", "--worker_num", "2", "--server_num", "2")


def run(tmp_path, *arguments, num_files=1, num_lines=200):
    folder = tmp_path / "fluid_ctr"
    shutil.copytree(Path(__file__).parent / "fluid_ctr", folder)
    shutil.copy(ROOT / "examples/fleet_ctr/criteo_reader.py", folder)
    maker = ROOT / "tools/make_criteo_logs.py"
    subprocess.run(
        [sys.executable, maker, folder / "raw_data", str(num_files), str(num_lines)], check=True
    )
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def aucs(text):
    return [float(auc) for auc in re.findall(r"^pass \d+ done, auc: ([\d.]+)", text, re.MULTILINE)]


def test_one_process_trains(tmp_path):
    _, printed = run(tmp_path, "train.py", "--is_local", "1")
    found = aucs(printed)
    assert len(found) == 20
    assert found[-1] > found[0] + 0.1


@pytest.mark.slow
def test_two_workers_and_two_servers_train(tmp_path):
    folder, _ = run(tmp_path, *LAUNCH, "train.py", num_files=2, num_lines=300)
    first, second = (aucs((folder / f"logs/workerlog.{rank}").read_text()) for rank in range(2))
    assert first == second  # of both workers together
    assert len(first) == 20
    assert first[-1] > first[0] + 0.1
