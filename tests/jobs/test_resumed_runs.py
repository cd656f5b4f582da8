"""A run that was broken off ends as if it had not been."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetrec.core.errors import ConfigError, DataError
from making import make_data, make_job, run, tensors_of, write_job

DEADLINE_S = 90.0


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path) -> Path:
    """Three epochs of 100 batches, a checkpoint every 10 batches and after every epoch."""
    data = make_data(tmp_path / "data", num_samples=1590, num_files=3)
    job = make_job(
        data, epochs=3, batch_size=16, save_step_interval=10, save_step_path="steps", seed=7
    )
    job["phase"][0]["shuffle_filelist"] = True
    return write_job(job, tmp_path / "config.yaml")


@contextlib.contextmanager
def started(config: Path, cwd: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetrec.run", "-m", str(config), *options],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert process.poll() is None, f"ended before {path} was there: {process.communicate()[0]}"
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.002)


def unbroken(config: Path, monkeypatch, tmp_path: Path) -> dict[str, bytes]:
    """Train without a break, in a folder of its own."""
    place = tmp_path / "unbroken"
    place.mkdir()
    with monkeypatch.context() as context:
        context.chdir(place)
        run(config)
        return tensors_of(Path("ckpt/2"))


@pytest.mark.multiprocess
def test_a_run_killed_in_the_middle_of_an_epoch_ends_equal(config, tmp_path, monkeypatch):
    with started(config, tmp_path) as process:
        wait_for(Path("steps/epoch_1_batch_50"), process)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
    assert not Path("ckpt/2").exists()
    run(config, resume=True)
    assert tensors_of(Path("ckpt/2")) == unbroken(config, monkeypatch, tmp_path)


@pytest.mark.multiprocess
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_the_run_goes_on_from_there(config, tmp_path, monkeypatch, number):
    options = ("-o", "runner.train.save_step_interval=-1")
    with started(config, tmp_path, *options) as process:
        wait_for(Path("ckpt/0"), process)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "Traceback" not in printed
    assert "--resume" in printed
    (saved,) = Path("steps").iterdir()
    assert saved.name.startswith(("epoch_1_batch_", "epoch_2_batch_"))  # a busy machine is late
    run(config, "runner.train.save_step_interval=-1", resume=True)
    assert tensors_of(Path("ckpt/2")) == unbroken(config, monkeypatch, tmp_path)


def stop_after(num_steps: int, monkeypatch) -> None:
    """Ask the run to stop after so many steps."""
    steps = iter(range(num_steps - 1))
    monkeypatch.setattr(
        "fleetrec.cli.signals.StopRequest.is_requested", lambda _: next(steps, None) is None
    )


def test_a_run_without_any_save_path_still_saves_when_stopped(config, monkeypatch, tmp_path):
    options = ("runner.train.save_checkpoint_path=", "runner.train.save_step_path=")
    options += ("runner.train.save_step_interval=-1",)
    with monkeypatch.context() as context:
        stop_after(5, context)
        with pytest.raises(KeyboardInterrupt):
            run(config, *options)
    folder = Path("logs") / f"{tmp_path.name}.train"
    assert (folder / "checkpoints/epoch_0_batch_4/MANIFEST.json").is_file()


def test_metrics_of_a_resumed_epoch_cover_the_whole_epoch(config, monkeypatch, tmp_path, capsys):
    with monkeypatch.context() as context:
        stop_after(30, context)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    run(config, resume=True)
    log = (Path("logs") / f"{tmp_path.name}.train" / "run.log").read_text()
    (line,) = [line for line in log.splitlines() if "epoch 0 done" in line]
    assert "SAMPLES=[1590]" in line


def test_checkpoints_of_another_run_are_not_taken_up(config, monkeypatch, capsys):
    run(config)  # an older run leaves ckpt/0 .. ckpt/2
    with monkeypatch.context() as context:
        stop_after(30, context)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    capsys.readouterr()
    run(config, resume=True)
    assert "resumed from steps/epoch_0_batch_29" in capsys.readouterr().out


def test_a_damaged_checkpoint_is_passed_over(config, monkeypatch, capsys):
    with monkeypatch.context() as context:
        stop_after(35, context)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    table = Path("steps/epoch_0_batch_34/learn/tables/SparseFeatFactors/00000-of-00001.snap")
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    capsys.readouterr()
    run(config, resume=True)
    printed = capsys.readouterr().out
    assert "passed over: steps/epoch_0_batch_34" in printed
    assert "resumed from steps/epoch_0_batch_30" in printed


def test_resuming_a_finished_run_does_nothing(config, capsys):
    run(config)
    before = tensors_of(Path("ckpt/2"))
    run(config, resume=True)
    assert "all 3 epochs are done already" in capsys.readouterr().out
    assert tensors_of(Path("ckpt/2")) == before


def test_more_epochs_continue_a_finished_run(config, capsys):
    run(config)
    run(config, "runner.train.epochs=4", resume=True)
    assert Path("ckpt/3").is_dir()
    assert "resumed from ckpt/2" in capsys.readouterr().out


def test_resuming_another_job_says_what_differs(config):
    run(config)
    with pytest.raises(ConfigError, match=r"--resume: phases\[0\]\.dataset\.batch_size was 16"):
        run(config, "dataset.data.batch_size=8", resume=True)


def test_resuming_nothing_starts_a_new_run(config, capsys):
    run(config, resume=True)
    assert "no checkpoint to resume from" in capsys.readouterr().out
    assert Path("ckpt/2").is_dir()


def test_changed_data_is_not_resumed(config, monkeypatch):
    with monkeypatch.context() as context:
        stop_after(30, context)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    with Path("data/part-0").open("a") as stream:
        stream.write("click:1 dense_feature:1 dense_feature:1 1:1\n")
    with pytest.raises(
        DataError, match="--resume: the data files have changed since steps/epoch_0"
    ):
        run(config, resume=True)
    assert Path("steps/epoch_0_batch_29").is_dir()


def test_a_growing_table_is_resumed_exactly(config, tmp_path, monkeypatch):
    growing = (
        "hyper_parameters.distributed_embedding=1",
        "hyper_parameters.admission={kind: score, threshold: 1.2, show_weight: 0.3}",
        "hyper_parameters.eviction={max_unseen_days: 1, min_score: 1, decay: 0.7, max_rows: 40}",
    )
    with monkeypatch.context() as context:
        stop_after(130, context)
        with pytest.raises(KeyboardInterrupt):
            run(config, *growing)
    run(config, *growing, resume=True)
    resumed = tensors_of(Path("ckpt/2"))
    place = tmp_path / "unbroken"
    place.mkdir()
    monkeypatch.chdir(place)
    run(config, *growing)
    assert resumed == tensors_of(Path("ckpt/2"))
