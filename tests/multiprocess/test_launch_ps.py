"""``python -m fleetrec.launch_ps`` as a user or a cluster manager meets it."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from fleetrec.core.env import environment_with
from multiprocess.launching import numbers_in, wait_until, wait_until_gone

pytestmark = pytest.mark.multiprocess

PROGRAM = """
import os, subprocess, sys, time
role = os.environ["TRAINING_ROLE"]
names = ("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", "POD_IP",
         "PADDLE_PORT")
print(role, *(os.environ.get(name, "-") for name in names), *sys.argv[1:], flush=True)
if "hang" in sys.argv:
    hang = [sys.executable, "-c", "import time; time.sleep(600)"]
    print(os.getpid(), subprocess.Popen(hang).pid, sep="\\n", flush=True)
    time.sleep(600)
if role == "PSERVER":
    time.sleep(600)
if "fail" in sys.argv:
    sys.exit("no such slot: 27")
"""


def command(*arguments):
    return [sys.executable, "-m", "fleetrec.launch_ps", *arguments]


def launch(folder, *arguments, **environment):
    (folder / "train.py").write_text(PROGRAM)
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment_with(environment, unless_set={}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextlib.contextmanager
def launched(folder, *arguments, **environment):
    """Give a launcher that runs; it is killed at the end, if it still does."""
    (folder / "train.py").write_text(PROGRAM)
    with subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment_with(environment, unless_set={}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as launcher:
        try:
            yield launcher
        finally:
            launcher.kill()


def pids_of(folder, *names):
    logs = [folder / "logs" / name for name in names]
    wait_until(
        lambda: all(log.exists() and len(numbers_in(log)) == 2 for log in logs), "all to start"
    )
    return numbers_in(*logs)


def test_the_command_that_users_know(tmp_path):
    done = launch(
        tmp_path, "--worker_num", "2", "--server_num", "2", "train.py", "--is_local", "0", "--help"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "all workers completed; logs: logs\n"
    logs = {path.name: path.read_text().split() for path in (tmp_path / "logs").glob("[!.]*")}
    assert sorted(logs) == ["serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1"]
    servers = logs["workerlog.1"][1]
    assert logs["workerlog.1"] == [
        "TRAINER",
        servers,
        "2",
        "1",
        "-",
        "-",
        "--is_local",
        "0",
        "--help",
    ]
    host, port = servers.split(",")[1].split(":")
    assert logs["serverlog.1"][:6] == ["PSERVER", servers, "2", "-", host, port]


def test_a_failed_worker_is_shown_and_its_status_passed_on(tmp_path):
    done = launch(tmp_path, "--worker_num", "2", "--log_dir", "out", "train.py", "fail")
    assert done.returncode == 1
    assert "\nno such slot: 27\n---\nerror: worker." in done.stderr
    assert done.stderr.endswith(" ended with status 1; logs: out\n")
    assert "Traceback" not in done.stdout + done.stderr
    assert "started again" not in done.stdout


def test_a_config_is_printed_without_the_secret(tmp_path):
    done = launch(
        tmp_path, "--start_port", "21170", "--print_config", "train.py", FLEETREC_TOKEN="hush"
    )
    assert done.returncode == 0
    assert "servers:         127.0.0.1:21170\n" in done.stdout
    assert "hush" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.py",), "nothing.py: no such file\n"),
        (("--worker_num", "0", "train.py"), "Invalid value for '--worker_num'"),
        (("--server_num", "2", "--endpoints", "127.0.0.1:1", "train.py"), "has 1 servers\n"),
        (("--node_ip", "192.0.2.1", "train.py"), "not an address of this machine"),
        (("--cluster_node_ips", "127.0.0.2", "train.py"), "--node_ip 127.0.0.1: not among"),
        (
            ("--cluster_node_ips", "127.0.0.1,127.0.0.2", "train.py"),
            "FLEETREC_TOKEN: servers on several machines need a secret",
        ),
    ],
)
def test_what_is_typed_wrong_starts_nothing(tmp_path, arguments, message):
    done = launch(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "logs").exists()


def test_nothing_survives_the_death_of_the_supervisor(tmp_path):
    arguments = ("--worker_num", "2", "--server_num", "2", "train.py", "hang")
    with launched(tmp_path, *arguments) as launcher:
        pids = pids_of(tmp_path, "workerlog.0", "workerlog.1", "serverlog.0", "serverlog.1")
        launcher.send_signal(signal.SIGKILL)
        wait_until_gone(*pids)
    assert len(pids) == 8  # with what each has started itself


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_told_launcher_stops_everything(tmp_path, number):
    with launched(tmp_path, "--worker_num", "2", "train.py", "hang") as launcher:
        pids = pids_of(tmp_path, "workerlog.0", "workerlog.1", "serverlog.0")
        launcher.send_signal(number)
        output, _ = launcher.communicate(timeout=60)
        assert launcher.returncode == 130
        assert "stopping; a second Ctrl-C stops at once" in output
        wait_until_gone(*pids)


def test_two_machines_make_one_job(tmp_path):
    """Two loopback addresses stand for two machines; each has a folder of its own."""
    machines = [tmp_path / "a", tmp_path / "b"]
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "ended = Path(sys.argv[1])\n"
        "role = os.environ['TRAINING_ROLE']\n"
        "print(role, os.environ['PADDLE_PSERVERS_IP_PORT_LIST'], flush=True)\n"
        "if role == 'TRAINER': (ended / os.environ['PADDLE_TRAINER_ID']).touch()\n"
        "while len(list(ended.iterdir())) < 3: time.sleep(0.01)\n"
    )
    (tmp_path / "ended").mkdir()
    running = []
    for number, machine in enumerate(machines, 1):
        machine.mkdir()
        (machine / "train.py").write_text(program)
        arguments = ["--worker_num", "3", "--server_num", "2", "--start_port", "21270"]
        where = ["--node_ip", f"127.0.0.{number}", "--cluster_node_ips", "127.0.0.1,127.0.0.2"]
        running.append(
            subprocess.Popen(
                command(*arguments, *where, "train.py", str(tmp_path / "ended")),
                cwd=machine,
                env=environment_with({"FLEETREC_TOKEN": "hush"}, unless_set={}),
            )
        )
    assert [launcher.wait(timeout=60) for launcher in running] == [0, 0]
    found = {path.name for path in tmp_path.glob("*/logs/[!.]*")}
    assert found == {"serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1", "workerlog.2"}
    told = {path.read_text() for path in tmp_path.glob("*/logs/serverlog.*")}
    assert told == {"PSERVER 127.0.0.1:21270,127.0.0.2:21270\n"}


def test_a_terminal_shows_a_live_table(tmp_path):
    program = (
        "import os, time\n"
        "from fleetrec.core.env import read_status_path\n"
        "from fleetrec.core.status import Status, write_status\n"
        "if os.environ['TRAINING_ROLE'] == 'PSERVER': time.sleep(600)\n"
        "write_status(read_status_path(), Status(epoch=3, batch=14, per_s=1592.6, auc=0.535))\n"
        "time.sleep(2)\n"
    )
    (tmp_path / "train.py").write_text(program)
    master, slave = pty.openpty()
    with subprocess.Popen(
        command("train.py"),
        cwd=tmp_path,
        env=environment_with({"TERM": "xterm", "COLUMNS": "120"}, unless_set={}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ) as launcher:
        os.close(slave)
        shown = read_all(master)
    os.close(master)
    assert launcher.returncode == 0, shown
    assert "process" in shown
    assert re.search(r"worker\.0 +running +epoch 3 batch 14 +1,593 +0\.5350 +0", shown)
    assert shown.rstrip().endswith("all workers completed; logs: logs")
    assert not list((tmp_path / "logs").glob(".*"))


def read_all(terminal):
    """Read until the other side is closed, which a terminal answers with an error."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    return b"".join(parts).decode()
