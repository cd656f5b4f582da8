"""The supervisor of a job: small programs that finish, crash, hang, and will not die."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetrec.launch.orphan_reaper import OrphanReaper
from multiprocess.launching import make_job, numbers_in, supervise, wait_until_gone

pytestmark = pytest.mark.multiprocess

SLEEP = "import time; time.sleep(600)"
SAY_PID = "import os, time; print(os.getpid(), flush=True)\n"
HANG = SAY_PID + "time.sleep(600)"
DEAF = (
    "import os, signal, time\n"
    "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
    "print(os.getpid(), flush=True)\n"
    "time.sleep(600)"
)


def kill_once(folder):
    """Return a program that kills itself the first time, and counts how often it was started."""
    return (
        "import os, signal, pathlib\n"
        f"mark = pathlib.Path({str(folder)!r}) / ('killed' + os.environ['TRAINING_ROLE'])\n"
        "print('started', flush=True)\n"
        "if not mark.exists():\n"
        "    mark.touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )


def test_a_job_is_over_when_its_workers_are(tmp_path):
    outcome = supervise(
        tmp_path, make_job(server=HANG, worker="print('hello')", num_servers=2, num_workers=2)
    )
    assert (outcome.status, outcome.failed) == (0, "")
    assert (tmp_path / "worker.1").read_text() == "hello\n"
    wait_until_gone(*numbers_in(tmp_path / "server.0", tmp_path / "server.1"))


def test_processes_learn_their_part_from_the_environment(tmp_path):
    code = (
        "from fleetrec.core.env import read_place\n"
        "place = read_place()\n"
        "print(place.role, place.rank, place.num_workers, place.num_servers)\n"
    )
    job = make_job(server=f"{code}import time; time.sleep(600)", worker=code, num_workers=2)
    assert supervise(tmp_path, job).status == 0
    assert (tmp_path / "worker.1").read_text() == "worker 1 2 1\n"


def test_a_killed_worker_is_started_again_and_its_log_goes_on(tmp_path, caplog):
    outcome = supervise(tmp_path, make_job(worker=kill_once(tmp_path)))
    assert outcome.status == 0
    assert (tmp_path / "worker.0").read_text() == "started\nstarted\n"
    assert "worker.0 was killed by SIGKILL; started again (1 of 3)" in caplog.messages


def test_a_killed_server_is_started_again_with_the_same_port(tmp_path):
    say_port = "import os; print(os.environ['PADDLE_PORT'], flush=True)\n"
    wait = (
        "import pathlib, time\n"
        f"log = pathlib.Path({str(tmp_path / 'server.0')!r})\n"
        "while log.read_text().count('started') < 2: time.sleep(0.01)\n"
    )
    server = f"{say_port}{kill_once(tmp_path)}import time; time.sleep(600)"
    assert supervise(tmp_path, make_job(server=server, worker=wait)).status == 0
    ports = numbers_in(tmp_path / "server.0")
    assert ports == [ports[0]] * 2


def test_a_worker_that_dies_again_and_again_ends_the_job(tmp_path):
    crash = "import os, signal; print('bang', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
    outcome = supervise(tmp_path, make_job(server=HANG, worker=crash), max_restarts=2)
    assert outcome.status == 128 + signal.SIGSEGV
    assert outcome.failed == "worker.0 was killed by SIGSEGV after 2 restarts"
    assert outcome.tail == ["bang"] * 3
    wait_until_gone(*numbers_in(tmp_path / "server.0"))


@pytest.mark.parametrize("status", [1, 2, 3])
def test_a_worker_that_says_what_is_wrong_is_not_started_again(tmp_path, status):
    worker = f"import sys; print('slot 7 is unknown'); sys.exit({status})"
    outcome = supervise(tmp_path, make_job(worker=worker, server=HANG))
    assert outcome.status == status
    assert outcome.failed == f"worker.0 ended with status {status}"
    assert outcome.tail == ["slot 7 is unknown"]
    assert outcome.log == tmp_path / "worker.0"


@pytest.mark.parametrize("status", [70, 75, 137])
def test_a_worker_that_asks_for_another_try_gets_one(tmp_path, status):
    once = kill_once(tmp_path).replace(
        "os.kill(os.getpid(), signal.SIGKILL)", f"os._exit({status})"
    )
    assert supervise(tmp_path, make_job(worker=once)).status == 0
    assert (tmp_path / "worker.0").read_text() == "started\nstarted\n"


def test_a_server_that_fails_ends_the_job_although_workers_would_wait(tmp_path):
    server = "import sys; sys.exit('the disk is full')"
    outcome = supervise(tmp_path, make_job(server=server, worker=HANG))
    assert (outcome.status, outcome.tail) == (1, ["the disk is full"])
    wait_until_gone(*numbers_in(tmp_path / "worker.0"))


def test_a_server_that_ends_too_early_is_mentioned(tmp_path, caplog):
    wait = "import time; time.sleep(1)"
    assert supervise(tmp_path, make_job(server="", worker=wait), early_exit_warn_s=0.1).status == 0
    assert caplog.messages == ["server.0 ended by itself while workers run"]


def test_a_worker_that_dies_when_the_servers_have_ended_does_not_wait_for_them(tmp_path):
    done = tmp_path / "done"
    server = SAY_PID + (
        f"import pathlib\nwhile not pathlib.Path({str(done)!r}).exists(): time.sleep(0.01)\n"
    )
    worker = (
        "import os, pathlib, signal, time\n"
        f"log = pathlib.Path({str(tmp_path / 'server.0')!r})\n"
        "while not log.read_text(): time.sleep(0.01)\n"
        f"pathlib.Path({str(done)!r}).touch()\n"
        "while pathlib.Path(f'/proc/{int(log.read_text())}').exists(): time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    outcome = supervise(tmp_path, make_job(server=server, worker=worker))
    assert outcome.failed == "worker.0 was killed by SIGKILL when the servers had ended"
    assert outcome.status == 128 + signal.SIGKILL


def test_a_command_that_cannot_be_started_is_a_failure_with_a_reason(tmp_path):
    job = make_job()
    broken = dataclasses.replace(job.workers, command=("/no/such/program",))
    outcome = supervise(tmp_path, dataclasses.replace(job, roles=(job.servers, broken)))
    assert outcome.status == 127
    assert outcome.tail == ["/no/such/program: cannot be started: No such file or directory"]


def test_what_a_dead_worker_had_started_dies_with_it(tmp_path):
    worker = (
        "import os, signal, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {HANG!r}])\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert supervise(tmp_path, make_job(worker=worker), max_restarts=1).status == 128 + 9
    pids = numbers_in(tmp_path / "worker.0")
    assert len(set(pids)) >= 2
    wait_until_gone(*pids)


def test_a_stop_lets_workers_save_while_the_servers_are_there(tmp_path):
    worker = (
        "import pathlib, signal, sys, time\n"
        "def save(*_):\n"
        f"    pid = int(pathlib.Path({str(tmp_path / 'server.0')!r}).read_text())\n"
        "    pathlib.Path(f'/proc/{pid}/stat').read_text()\n"
        "    time.sleep(0.3)\n"
        "    print('saved', flush=True)\n"
        "    sys.exit(130)\n"
        "signal.signal(signal.SIGINT, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    )
    logs = [tmp_path / "worker.0", tmp_path / "worker.1"]

    def all_ready():
        return all(log.read_text() for log in [*logs, tmp_path / "server.0"])

    job = make_job(server=HANG, worker=worker, num_workers=2)
    outcome = supervise(tmp_path, job, should_stop=all_ready)
    assert outcome.status == 130
    assert [log.read_text() for log in logs] == ["ready\nsaved\n"] * 2
    wait_until_gone(*numbers_in(tmp_path / "server.0"))


def test_processes_that_will_not_end_are_killed(tmp_path, caplog):
    logs = [tmp_path / "worker.0", tmp_path / "server.0"]
    outcome = supervise(
        tmp_path,
        make_job(server=DEAF, worker=DEAF),
        should_stop=lambda: all(log.read_text() for log in logs),
        save_timeout_s=0.3,
        stop_timeout_s=0.3,
    )
    assert outcome.status == 130
    assert "worker.0 did not end within 0.3 s; killed" in caplog.messages
    wait_until_gone(*numbers_in(*logs))


def test_a_worker_that_hears_no_ctrl_c_by_inheritance_hears_it_here(tmp_path):
    """A shell starts what runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        outcome = supervise(
            tmp_path, make_job(worker=HANG), should_stop=(tmp_path / "worker.0").read_text
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcome.status == 130
    assert "KeyboardInterrupt" in (tmp_path / "worker.0").read_text()


def test_a_megabyte_of_output_does_no_harm(tmp_path):
    worker = "for i in range(20000): print('x' * 60, i)\nraise SystemExit(1)"
    outcome = supervise(tmp_path, make_job(worker=worker))
    assert len(outcome.tail) == 30
    assert outcome.tail[-1].endswith(" 19999")


def test_the_watcher_sees_every_process_change(tmp_path):
    seen = []
    supervise(
        tmp_path,
        make_job(worker=kill_once(tmp_path)),
        watch=lambda children: seen.append([(c.name, c.state, c.num_restarts) for c in children]),
    )
    assert seen[-1] == [("server.0", "stopped", 0), ("worker.0", "finished", 1)]
    assert [("server.0", "running", 0), ("worker.0", "running", 1)] in seen


def children_of_this_process():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_no_zombie_and_no_open_file_is_left(tmp_path):
    supervise(tmp_path, make_job(worker=""))
    before = len(list(Path("/proc/self/fd").iterdir()))
    others = set(children_of_this_process())  # of earlier tests
    supervise(tmp_path, make_job(worker=kill_once(tmp_path)))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    children = set(children_of_this_process()) - others
    states = [Path(f"/proc/{pid}/status").read_text() for pid in children]
    assert not [state for state in states if "\nState:\tZ" in state]


def test_a_reaper_that_is_killed_is_replaced(tmp_path):
    with contextlib.closing(OrphanReaper()) as reaper:
        reaper._process.kill()
        reaper._process.wait()
        reaper.restart_if_dead()
        child = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
        reaper.watch(child.pid)
    assert child.wait(timeout=30) == -signal.SIGKILL  # the reaper's input has ended
