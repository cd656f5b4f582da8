"""Online runners whose data is a message stream, as whole commands on a real broker."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleetrec.cli.online import online_command
from fleetrec.cli.run import RunRequest
from fleetrec.core.env import FAULTS, environment_with
from making import columns_of, make_slot_text, tables_of, tensors_of, write_job
from making_online import make_online_job
from streaming import NatsServer

pytestmark = pytest.mark.multiprocess

DEADLINE_S = 120
NUM_PASSES = 6
PASS_MESSAGES = 60
FOLDER_KEYS = ("start_day", "end_day", "split_interval", "data_donefile")


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server(tmp_path):
    (tmp_path / "broker").mkdir()
    made = NatsServer(tmp_path / "broker")
    yield made
    made.close()


def make_lines(num_samples):
    """Slot 3 of a sample is an id that no other sample has."""
    lines = make_slot_text(num_samples, seed=0).splitlines()
    return [
        f"{line.rpartition(' ')[0]} 3:{1_000_000 + number}".encode()
        for number, line in enumerate(lines)
    ]


def write_stream_job(tmp_path, server, **runner):
    given = {"pass_messages": PASS_MESSAGES, "pass_seconds": 0, "num_passes": NUM_PASSES, **runner}
    job = make_online_job(server.url("clicks"), **given)
    for key in FOLDER_KEYS:
        del job["runner"][0][key]
    return write_job(job, tmp_path / "config.yaml")


def online(config):
    online_command(RunRequest(model=str(config)))


def newest(folder="model"):
    """Return the checkpoint of the last pass; the day is that of the test."""
    found = sorted(Path(folder).glob(f"*/{NUM_PASSES}"))
    assert len(found) == 1, found
    return str(found[0])


def shows(checkpoint):
    """Return how often every sample was trained, by the id that only it has."""
    found = {}
    for _, _, stored in tables_of(checkpoint):
        columns = columns_of(stored)
        pairs = zip(columns["ids"].tolist(), columns["shows"].tolist(), strict=True)
        found |= {number: count for number, count in pairs if number >= 1_000_000}
    return found


def start(config, faults=None):
    added = {} if faults is None else {FAULTS: str(faults)}
    return subprocess.Popen(
        [sys.executable, "-m", "fleetrec.online", "-m", str(config)],
        env=environment_with(added, unless_set={"OMP_NUM_THREADS": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("point", ["pass_frozen", "evaluated", "compute", "publish"])
def test_a_killed_run_ends_as_an_unbroken_one(tmp_path, server, point):
    server.send(*make_lines(NUM_PASSES * PASS_MESSAGES))
    config = write_stream_job(tmp_path, server)
    faults = tmp_path / "faults" / "process.0"
    faults.mkdir(parents=True)
    (faults / point).write_text("3 kill")
    with start(config, faults.parent) as process:
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -signal.SIGKILL, output
    online(config)
    seen, killed = shows(newest()), tensors_of(newest())
    assert len(seen) == NUM_PASSES * PASS_MESSAGES
    assert set(seen.values()) == {1}
    shutil.rmtree("model")
    shutil.rmtree("logs")
    online(config)
    assert tensors_of(newest()) == killed


def test_messages_are_followed_while_the_broker_is_killed_and_restarted(tmp_path, server):
    lines = make_lines(NUM_PASSES * PASS_MESSAGES)
    server.send(*lines[:PASS_MESSAGES])
    config = write_stream_job(tmp_path, server, pass_seconds=1000)
    with start(config) as process:
        for index in range(1, NUM_PASSES):
            wait_for(tmp_path / "model" / "passes" / f"{index - 1}.json", process)
            if index % 2:
                server.kill()
                server.start()
            server.send(*lines[index * PASS_MESSAGES : (index + 1) * PASS_MESSAGES])
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output
    seen = shows(newest())
    assert len(seen) == len(lines)
    assert set(seen.values()) == {1}


def wait_for(path, process):
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)
