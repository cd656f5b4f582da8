"""Places at which a process can be made to die: only if somebody has asked for it."""

import os
import signal
import subprocess
import sys

import pytest

from fleetrec.core.env import FAULTS, environment_with

CODE = (
    "from fleetrec.core.fault_points import fault_point\n"
    "for number in range(5): fault_point('here'); print(number, flush=True)"
)
WORKER = {
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:7000",
}


def numbers_of(folder, environment):
    """Run a program that comes by five times; returns its status, and how often it survived."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment_with({FAULTS: str(folder), **environment}, unless_set={}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.split()


def make_order(folder, text):
    order = folder / "worker.1" / "here"
    order.parent.mkdir()
    order.write_text(text)
    return order


def test_a_process_dies_where_it_was_told_to_and_only_once(tmp_path):
    order = make_order(tmp_path, "3 kill")
    assert numbers_of(tmp_path, WORKER) == (-9, ["0", "1"])
    assert not order.exists()
    assert numbers_of(tmp_path, WORKER) == (0, ["0", "1", "2", "3", "4"])


def test_a_process_tells_that_it_came_by(tmp_path):
    order = make_order(tmp_path, "5 note")
    assert numbers_of(tmp_path, WORKER) == (0, ["0", "1", "2", "3", "4"])
    assert not order.exists()


def test_a_process_stands_still_until_it_is_told_to_continue(tmp_path):
    make_order(tmp_path, "2 stop")
    environment = environment_with({FAULTS: str(tmp_path), **WORKER}, unless_set={})
    command = [sys.executable, "-c", CODE]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    assert output.split() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("environment", [{}, {**WORKER, FAULTS: ""}])
def test_nobody_dies_outside_of_a_job_or_without_the_variable(tmp_path, environment):
    order = make_order(tmp_path, "1 kill")
    assert numbers_of(tmp_path, environment) == (0, ["0", "1", "2", "3", "4"])
    assert order.read_text() == "1 kill"
