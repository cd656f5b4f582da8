"""The example program of the Fleet API: alone, with others, and with a worker that is killed."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from making import columns_of, tables_of, tensors_of
from multiprocess.launching import children_of, wait_until

pytestmark = pytest.mark.multiprocess

ROOT = Path(__file__).parents[2]
FLAGS = ("--epochs", "2", "--learning_rate", "0.5", "--save", "model")
LAUNCH = ("-m", "fleetrec.launch_ps", "--worker_num", "2", "--server_num", "2")


@pytest.fixture
def example(tmp_path):
    """The example with a little data."""
    folder = tmp_path / "fleet_ctr"
    shutil.copytree(ROOT / "examples/fleet_ctr", folder)
    maker = ROOT / "tools/make_criteo_logs.py"
    subprocess.run([sys.executable, maker, folder / "raw_data", "4", "300"], check=True)
    return folder


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def aucs(text):
    return [float(auc) for auc in re.findall(r"^pass \d done, auc: ([\d.]+)", text, re.MULTILINE)]


def test_one_process_trains(example):
    done = run(example, "train.py", "--is_local", "1", *FLAGS)
    assert done.returncode == 0, done.stderr
    first, last = aucs(done.stdout)
    assert first < last
    assert [name for _, name, _ in tables_of(example / "model")] == ["embedding"]


def test_two_workers_and_two_servers_train(example):
    done = run(example, *LAUNCH, "train.py", *FLAGS)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = example / "logs"
    names = sorted(path.name for path in logs.glob("[!.]*"))
    assert names == ["serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1"]
    told = [aucs((logs / name).read_text()) for name in names[2:]]
    assert len(told[0]) == 2
    assert told[0] == told[1]  # of all workers together
    (_, _, table), *_ = tables_of(example / "model")
    columns = columns_of(table)
    assert len(columns["ids"]) > 500
    assert np.isfinite(columns["rows"]).all()


def make_sync(folder):
    """Let workers make steps together, so that a run can be compared with another."""
    path = folder / "train.py"
    program = path.read_text()
    assert "sync_mode = False" in program
    path.write_text(program.replace("sync_mode = False", "sync_mode = True"))


def test_a_killed_worker_takes_up_its_program_where_it_was(example):
    make_sync(example)
    done = run(example, *LAUNCH, "train.py", *FLAGS)
    assert done.returncode == 0, done.stdout + done.stderr
    unbroken = tensors_of(example / "model")
    shutil.rmtree(example / "model")
    log = example / "logs/workerlog.1"
    log.unlink()
    with subprocess.Popen(
        [sys.executable, *LAUNCH, "train.py", *FLAGS],
        cwd=example,
        stdout=subprocess.PIPE,
        text=True,
    ) as launcher:
        wait_until(lambda: log.exists() and "pass 0 done" in log.read_text(), "the first pass")
        second = [p for p, e in children_of(launcher).items() if e.get("PADDLE_TRAINER_ID") == "1"]
        os.kill(second[0], signal.SIGKILL)
        output, _ = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, output
    assert "worker.1 was killed by SIGKILL; started again (1 of 3)" in output
    assert tensors_of(example / "model") == unbroken
