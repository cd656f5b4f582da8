"""A training is killed at any moment of saving; the newest checkpoint is sound and goes on."""

import multiprocessing
import random
import shutil
import time

import pytest

from fleetrec.checkpoint.folder import open_folder
from making import run, tensors_of
from multiprocess.training_child import CONFIG, prepare, train

DEADLINE_S = 90.0
PRELOADED = ("fleetrec.cli.process", "torch._dynamo")  # what a training imports late
NUM_KEPT = 12  # of the newest checkpoints: more than a chain is long


def published(folder):
    """Return the checkpoints in the order in which they were taken."""
    return sorted(visible(folder), key=step_of)


def visible(folder):
    return {path for name in ("steps", "ckpt") for path in (folder / name).glob("[!.]*")}


def step_of(path):
    progress = open_folder(path, kind="checkpoint").meta["progress"]
    return progress["step"], progress["pass_index"]


def run_and_kill(context, folder, delay_s):
    """Let a child work until it has saved something, and a little more."""
    child = context.Process(target=train, args=(folder,))
    before = visible(folder)
    child.start()
    deadline = time.monotonic() + DEADLINE_S
    while visible(folder) <= before:
        assert child.is_alive(), (folder / "printed").read_text()
        assert time.monotonic() < deadline, "no checkpoint ever came"
        time.sleep(0.002)
    time.sleep(delay_s)  # the moment is the point: there is no condition to wait for
    child.kill()
    child.join()
    assert child.exitcode == -9, "the child ended by itself"


def forget_old(folder):
    """Keep the disk small; dot-folders are what the kills left behind."""
    for path in published(folder)[:-NUM_KEPT]:
        shutil.rmtree(path)
    for path in (folder / "steps").glob(".*"):
        shutil.rmtree(path)


def check_rounds(tmp_path, monkeypatch, num_rounds):
    rng = random.Random(7)
    folder = tmp_path / "killed"
    folder.mkdir()
    prepare(folder)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["multiprocess.training_child", *PRELOADED])
    last_step, num_left = (0, 0), 0
    for _ in range(num_rounds):
        run_and_kill(context, folder, rng.uniform(0, 0.06))
        newest = published(folder)[-1]
        assert step_of(newest) > last_step  # it went on from the one before
        last_step = step_of(newest)
        tensors_of(newest)  # reads and checks every file of its chain
        num_left += len(list((folder / "steps").glob(".*")))
        forget_old(folder)
    assert "this is a new run" not in (folder / "printed").read_text().partition("save epoch_id")[2]
    within_epoch = [path for path in published(folder) if path.parent.name == "steps"]
    check_equal_to_unbroken(tmp_path / "unbroken", monkeypatch, within_epoch[-1])
    return num_left


def check_equal_to_unbroken(folder, monkeypatch, checkpoint):
    """Compare with a run that was stopped after the same step."""
    folder.mkdir()
    prepare(folder)
    monkeypatch.chdir(folder)
    num_steps, _ = step_of(checkpoint)
    steps = iter(range(num_steps - 1))
    monkeypatch.setattr(
        "fleetrec.cli.signals.StopRequest.is_requested", lambda _: next(steps, None) is None
    )
    with pytest.raises(KeyboardInterrupt):
        run(CONFIG, "runner.train.save_step_interval=-1")
    assert tensors_of(folder / "steps" / checkpoint.name) == tensors_of(checkpoint)


@pytest.mark.multiprocess
def test_a_killed_run_leaves_a_sound_checkpoint(tmp_path, monkeypatch):
    check_rounds(tmp_path, monkeypatch, 6)


@pytest.mark.multiprocess
@pytest.mark.slow
def test_a_killed_run_leaves_a_sound_checkpoint_in_many_rounds(tmp_path, monkeypatch):
    assert check_rounds(tmp_path, monkeypatch, 200) > 0  # some kills met half a checkpoint
