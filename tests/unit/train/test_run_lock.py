"""The lock on the folder of an online run."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.train.run_lock import LOCK, run_lock

HOLD = (
    "import sys\n"
    "from fleetrec.train.run_lock import run_lock\n"
    "with run_lock(sys.argv[1]):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "model")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.stdin.close()


def test_a_lock_that_another_process_holds_is_refused_with_its_name(tmp_path, holder):
    place = f"process {holder.pid} on {socket.gethostname()}, started "
    with pytest.raises(ConfigError, match=place), run_lock(str(tmp_path / "model")):
        pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, holder, number):
    holder.send_signal(number)
    holder.wait()
    with run_lock(str(tmp_path / "model")):
        assert json.loads((tmp_path / "model" / LOCK).read_text())["pid"] == os.getpid()


def test_a_lock_is_free_after_the_block(tmp_path):
    for _ in range(2):
        with run_lock(str(tmp_path)), pytest.raises(ConfigError), run_lock(str(tmp_path)):
            pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    words = "file/model: cannot be written"
    with pytest.raises(CheckpointError, match=words), run_lock(str(tmp_path / "file" / "model")):
        pass


def test_folders_at_urls_are_not_locked():
    with run_lock("memory://model"), run_lock("memory://model"):
        pass
