"""The command that alarms run, with real processes."""

import json
import os
import sys
import time
from pathlib import Path

from fleetrec.train.alarm_command import AlarmCommand
from fleetrec.train.alarms import Alarm

ALARM = Alarm(name="copc", message='COPC is 2; "$(quoted)"', pass_name="20261118/0005", time=5.0)
OVER = Alarm(name="copc", message="", pass_name="20261118/0010", time=6.0, is_over=True)

WRITE = """
import json, os, sys
alarm = json.load(sys.stdin)
known = {k: v for k, v in os.environ.items() if k.startswith("FLEETREC_ALARM")}
with open(sys.argv[1], "a") as stream:
    stream.write(json.dumps([alarm, known, "PATH" in os.environ]) + "\\n")
"""


def test_a_command_gets_the_alarm_as_json_and_in_variables(tmp_path):
    path = tmp_path / "alarms"
    with AlarmCommand([sys.executable, "-c", WRITE, str(path)]) as command:
        command.report(ALARM)
        command.report(OVER)  # runs nothing
        command.report(ALARM)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    variables = {
        "FLEETREC_ALARM_NAME": "copc",
        "FLEETREC_ALARM_MESSAGE": 'COPC is 2; "$(quoted)"',
        "FLEETREC_ALARM_PASS": "20261118/0005",
    }
    assert lines == [[ALARM.to_plain(), variables, True]] * 2


def test_a_command_that_fails_is_logged(caplog):
    code = "import sys; sys.exit('no such address')"
    with AlarmCommand([sys.executable, "-c", code]) as command:
        command.report(ALARM)
    (line,) = caplog.messages
    assert line.startswith(f"command of alarm copc: {sys.executable} ended with exit code 1")
    assert "no such address" in line


def test_a_command_that_is_not_there_is_logged(caplog, tmp_path):
    with AlarmCommand([str(tmp_path / "none")]) as command:
        command.report(ALARM)
    assert "none cannot be started: " in caplog.text


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(caplog, tmp_path):
    path = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    with AlarmCommand([sys.executable, "-c", code, str(path)], timeout_s=5) as command:
        command.report(ALARM)
    assert "was ended after 5 s" in caplog.text
    wait_until_ended(int(path.read_text()))


def test_reporting_does_not_wait_for_the_command(tmp_path, caplog):
    path = tmp_path / "go"
    code = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    with AlarmCommand([sys.executable, "-c", code, str(path)], timeout_s=20) as command:
        command.report(ALARM)
        path.write_text("")  # the command ends only after this line is reached
    assert caplog.messages == []


def test_without_a_command_nothing_runs(caplog):
    with AlarmCommand(()) as command:
        command.report(ALARM)
    assert caplog.messages == []


def wait_until_ended(pid):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} still runs")
