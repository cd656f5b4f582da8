"""The next pass is read while the current one trains."""

import threading
import time
from pathlib import Path

import pytest
import torch

from fleetrec.core.progress import Progress
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.follow import Follow
from fleetrec.train.pass_log import PassLog
from fleetrec.train.phase import build_phase
from fleetrec.train.read_ahead import ReadAhead
from making_online import DAYS, make_days, make_split, write_online_job
from making_training import decode_run

DEADLINE_S = 60.0


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_days(tmp_path / "data", DAYS[:1])
    return decode_run(write_online_job(tmp_path, tmp_path / "data"))


def open_run(run):
    group = SoloGroup(torch.device("cpu"))
    phase = build_phase(run.phases[0], run, group)
    plan = Follow(run.online.follow, [phase.name], PassLog("model"), group)
    return phase, plan, ReadAhead(plan, run.online)


def wait_for_threads():
    deadline = time.monotonic() + DEADLINE_S
    while any(thread.name == "fleetrec-read-ahead" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pass_that_was_read_ahead_is_in_memory(run):
    phase, plan, ahead = open_run(run)
    ahead.start(phase, 1)
    wait_for_threads()
    spec = plan.next(Progress(pass_index=1))
    for file in spec.files[phase.name]:
        Path(file.path).unlink()
    loader = ahead.take(phase, spec)
    assert loader is not None
    assert len(loader.load_into_memory()) == 120


def test_other_files_than_those_read_ahead_are_read_again(run, tmp_path):
    phase, plan, ahead = open_run(run)
    ahead.start(phase, 1)
    wait_for_threads()
    make_split(tmp_path / "data" / DAYS[0] / "0800", seed=9, num_samples=50)
    assert ahead.take(phase, plan.next(Progress(pass_index=1))) is None


def test_waiting_for_data_ends_with_the_run(run):
    phase, _, ahead = open_run(run)
    ahead.start(phase, 3)  # of a day that is not there
    ahead.close()
    wait_for_threads()


def test_a_damaged_file_is_left_to_the_pass(run, tmp_path):
    phase, plan, ahead = open_run(run)
    (tmp_path / "data" / DAYS[0] / "0800" / "part-0").write_text("no slot text")
    ahead.start(phase, 1)
    wait_for_threads()
    assert ahead.take(phase, plan.next(Progress(pass_index=1))) is None
