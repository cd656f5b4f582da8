"""Online runs with bad input, full disks and wrong options: clear messages, and nothing is lost.

Every run is a command of its own: a message without a traceback and the status are what users get.
"""

import contextlib
import gzip
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chaos.online import OnlineProcess, order
from chaos.run import has_private_mounts
from chaos.whole_job import SMALL_DISK
from making import columns_of, tables_of, tensors_of
from making_online import DAYS, DONE, NUM_SAMPLES, make_days, make_split, write_online_job

pytestmark = pytest.mark.multiprocess

DEADLINE_S = 120.0
NEXT_DAY = "20261118"
LAST = f"model/{NEXT_DAY}/0"
NUM_PASSES = 6
DISK_MB = 24


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def split(tmp_path):
    """The folder of the second pass; the job follows two days of data."""
    write_online_job(tmp_path, make_days(tmp_path / "data"))
    return tmp_path / "data" / DAYS[0] / "0800"


def online(tmp_path, *overrides, status):
    """Run the command to its end; returns what it printed."""
    before = size_of(tmp_path / "output")
    words = [word for text in overrides for word in ("-o", f"runner.online.{text}")]
    with OnlineProcess(tmp_path, *words) as run:
        found = run.wait(seconds=DEADLINE_S)
    output = (tmp_path / "output").read_text()[before:]
    assert found == status, output
    assert "Traceback" not in output
    return output


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def wait_until(condition, run, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert run.process.poll() is None, run.tail()
        assert time.monotonic() < deadline, f"waited in vain: {what}\n{run.tail()}"
        time.sleep(0.01)


def is_stopped(pid):
    """Return whether all threads of a process stand still."""
    states = [
        path.read_text().rpartition(")")[2].split()[0]
        for path in Path(f"/proc/{pid}/task").glob("*/stat")
    ]
    return all(state == "T" for state in states)


def check_all_trained_once(num_passes=NUM_PASSES):
    counts = {}
    for _, _, stored in tables_of(LAST):
        columns = columns_of(stored)
        pairs = zip(columns["ids"].tolist(), columns["shows"].tolist(), strict=True)
        counts |= {number: count for number, count in pairs if number >= 1_000_000}
    assert len(counts) == num_passes * NUM_SAMPLES
    assert set(counts.values()) == {1}


def check_equal_to_unbroken(tmp_path):
    found = tensors_of(LAST)
    lines = Path("model/donefile.txt").read_text()
    shutil.rmtree("model")
    shutil.rmtree("logs")
    online(tmp_path, status=0)
    assert tensors_of(LAST) == found
    assert Path("model/donefile.txt").read_text() == lines


def test_a_folder_without_done_file_is_waited_for_and_named(split, tmp_path):
    (split / DONE).unlink()
    with OnlineProcess(tmp_path) as run:
        text = f"waiting for pass {DAYS[0]}/0800 (0 s): {split} has 2 files, but no {DONE} yet"
        wait_until(lambda: text in run.output.read_text(), run, "a line about the folder")
        (split / DONE).write_text("")
        assert run.wait(seconds=DEADLINE_S) == 0, run.tail()
    check_all_trained_once()


def test_data_that_never_comes_ends_the_run_if_asked_for(split, tmp_path):
    (split / DONE).unlink()
    output = online(tmp_path, "data_timeout_second=0.5", status=1)
    assert f"error: pass {DAYS[0]}/0800: {split} has 2 files, but no {DONE} yet after" in output
    assert "start the run again when the data is there, or set on_data_timeout: skip" in output
    (split / DONE).write_text("")
    online(tmp_path, status=0)
    check_equal_to_unbroken(tmp_path)


def test_files_that_come_after_the_done_file_are_trained_with_the_next_pass(split, tmp_path):
    late = split / "part-1"
    late.rename(tmp_path / "kept")
    with OnlineProcess(tmp_path) as run:
        stopped = order(run.faults, "evaluated", count=2, word="stop")  # in the pass without it
        wait_until(lambda: not stopped.exists() and is_stopped(run.process.pid), run, "a stop")
        (tmp_path / "kept").rename(late)
        run.process.send_signal(signal.SIGCONT)
        assert run.wait(seconds=DEADLINE_S) == 0, run.tail()
    words = f"late file of pass {DAYS[0]}/0800: {late}, trained with pass {DAYS[0]}/1600"
    assert words in run.output.read_text()
    check_all_trained_once()


def test_a_file_that_vanishes_after_the_freeze_is_named_and_the_run_goes_on_with_it(
    split, tmp_path
):
    # Without reading ahead: else the pass is in memory before it is frozen.
    with OnlineProcess(tmp_path, "-o", "runner.online.prefetch=false") as run:
        stopped = order(run.faults, "pass_frozen", count=2, word="stop")
        wait_until(lambda: not stopped.exists() and is_stopped(run.process.pid), run, "a stop")
        (split / "part-1").rename(tmp_path / "kept")
        run.process.send_signal(signal.SIGCONT)
        assert run.wait(seconds=DEADLINE_S) == 1, run.tail()
    assert f"error: {split / 'part-1'}" in run.tail()
    assert "Traceback" not in run.tail()
    (tmp_path / "kept").rename(split / "part-1")
    online(tmp_path, status=0)
    check_equal_to_unbroken(tmp_path)


def test_a_truncated_gzip_file_is_named_and_the_run_goes_on_when_it_is_whole(split, tmp_path):
    content = (split / "part-1").read_bytes()
    (split / "part-1").unlink()
    whole = gzip.compress(content, mtime=0)
    (split / "part-1.gz").write_bytes(whole[: len(whole) // 2])
    output = online(tmp_path, status=1)
    assert f"error: {split / 'part-1.gz'}" in output
    (split / "part-1.gz").write_bytes(whole)
    output = online(tmp_path, status=0)
    assert f"pass {DAYS[0]}/0800 starts again with the files that are there now" in output
    check_equal_to_unbroken(tmp_path)


def test_a_bad_line_is_named_and_the_run_goes_on_when_it_is_mended(split, tmp_path):
    content = (split / "part-1").read_text()
    lines = content.splitlines(keepends=True)
    lines[7] = lines[7].replace("click:", "click:x", 1)
    (split / "part-1").write_text("".join(lines))
    output = online(tmp_path, status=1)
    assert f"error: {split / 'part-1'}:8" in output
    (split / "part-1").write_text(content)
    online(tmp_path, status=0)
    check_equal_to_unbroken(tmp_path)


def test_a_pass_without_positive_labels_is_trained(split, tmp_path):
    for path in split.glob("part-*"):
        path.write_text(path.read_text().replace("click:1", "click:0"))
    online(tmp_path, status=0)
    check_all_trained_once()


def test_a_folder_that_cannot_be_written_is_named_before_the_first_step(split, tmp_path):
    del split
    (tmp_path / "file").write_text("")
    output = online(tmp_path, "model_save_path=file/model", status=1)
    assert "error: file/model: cannot be written" in output
    assert not list(tmp_path.glob("logs/*/metrics.jsonl"))


def test_a_second_run_on_the_same_folder_is_refused_while_the_first_is_there(tmp_path):
    write_online_job(tmp_path, tmp_path / "data", end_day=DAYS[0])
    first = tmp_path / "data" / DAYS[0]
    make_split(first / "0000", seed=0)
    with OnlineProcess(tmp_path) as run:
        wait_until((tmp_path / "model" / DAYS[0] / "1" / "MANIFEST.json").exists, run, "a pass")
        output = online(tmp_path, status=2)
        assert f"model_save_path model: process {run.process.pid} on " in output
        assert "wait for it, stop it, or choose another model_save_path" in output
        run.process.kill()
        run.wait()
    make_split(first / "0800", seed=1)
    make_split(first / "1600", seed=2)
    online(tmp_path, status=0)  # the lock of a dead process is no obstacle


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("split_interval=240", "has 480 minutes, but split_interval and split_per_pass"),
        (f"start_day={DAYS[1]}", f"count from start_day {DAYS[0]}, but start_day is now {DAYS[1]}"),
        ("start_day=20261115", f"count from start_day {DAYS[0]}, but start_day is now 20261115"),
    ],
)
def test_other_passes_than_those_that_were_saved_are_refused(split, tmp_path, change, words):
    del split
    online(tmp_path, f"end_day={DAYS[0]}", status=0)
    output = online(tmp_path, change, status=2)
    assert words in output
    assert "init_model_path keeps the weights" in output
    online(tmp_path, status=0)
    check_all_trained_once()


class Shell:
    """A shell with a small disk of its own at ``model``, which outlives the runs that it starts."""

    def __init__(self, folder):
        self._folder = folder
        self._run = OnlineProcess(folder)
        script = 'while read -r _; do "$@" >> output 2>&1; echo "$?"; done'
        command = [*SMALL_DISK, str(folder / "model"), str(DISK_MB)]
        self._shell = subprocess.Popen(
            [*command, "sh", "-c", script, "sh", *self._run.command],
            cwd=folder,
            env=self._run.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.disk = Path(f"/proc/{self._shell.pid}/root{folder}/model")

    def start(self):
        self._shell.stdin.write("go\n")
        self._shell.stdin.flush()

    def status(self):
        return int(self._shell.stdout.readline())

    def run_until_full(self, point):
        """Run the command, and fill the disk when it comes by a point."""
        stopped = order(self._run.faults, point, count=2, word="stop")
        self.start()
        deadline = time.monotonic() + DEADLINE_S
        while stopped.exists() or not is_stopped(self._pid()):
            assert time.monotonic() < deadline, f"{point} was not reached"
            time.sleep(0.01)
        pid = self._pid()
        ballast = self.disk / "ballast"
        with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            while True:
                stream.write(b"x" * 4096)
        os.kill(pid, signal.SIGCONT)
        status = self.status()
        ballast.unlink()
        return status

    def close(self):
        with self._shell:
            self._shell.stdin.close()

    def _pid(self):
        children = Path(f"/proc/{self._shell.pid}/task/{self._shell.pid}/children").read_text()
        return int(children.split()[0])


@pytest.mark.slow
def test_a_full_disk_is_named_and_nothing_is_lost_when_there_is_room(split, tmp_path):
    del split
    if not has_private_mounts():
        pytest.skip("this machine allows no private mounts")
    shell = Shell(tmp_path)
    try:
        for point in ("evicted", "serving_rows", "donefile"):  # a checkpoint, a delta, a done file
            before = size_of(tmp_path / "output")
            assert shell.run_until_full(point) == 1, (tmp_path / "output").read_text()
            output = (tmp_path / "output").read_text()[before:]
            assert "No space left on device" in output
            assert "Traceback" not in output
        shell.start()
        assert shell.status() == 0, (tmp_path / "output").read_text()
        shutil.copytree(shell.disk, tmp_path / "copy")
    finally:
        shell.close()
    shutil.rmtree("model")  # the empty folder below the disk
    Path("copy").rename("model")
    check_all_trained_once()
    check_equal_to_unbroken(tmp_path)
