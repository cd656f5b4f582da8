"""What every launcher does with a job of small programs, whether it restarts each process or all.

``each`` is a job of two workers and a server, ``all`` a job of two ranks. A launcher that is added
to LAUNCHERS has to pass the same tests.
"""

import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from fleetrec.core.launchers.precedence import place_of
from fleetrec.launch.job_spec import JobSpec, RoleSpec
from fleetrec.launch.local import LocalLauncher
from fleetrec.launch.supervisor import Policy
from multiprocess.launching import is_running, numbers_in, wait_until, wait_until_gone

pytestmark = pytest.mark.multiprocess

LAUNCHERS = {"local": LocalLauncher}
SERVE = "import time; print('serving', flush=True); time.sleep(600)"
SAY_PLACE = (
    "import json, os, sys, time, pathlib, signal\n"
    "print(json.dumps(dict(os.environ)), flush=True)\n"
    "rank = int(os.environ['FLEETREC_RANK'])\n"
)
HANG = f"{SAY_PLACE}print(os.getpid(), flush=True)\ntime.sleep(600)\n"


@pytest.fixture(params=LAUNCHERS)
def launcher(request):
    """Return a function that makes a launcher with a policy."""

    def make(**options):
        waits = {"save_timeout_s": 20.0, "stop_timeout_s": 5.0}
        policy = Policy(**{**waits, **options.pop("policy", {})})
        return LAUNCHERS[request.param](policy=policy, **options)

    return make


@pytest.fixture(params=["each", "all"])
def restart(request):
    return request.param


def make_job(restart, code, *, num_workers=2, env=None):
    command = (sys.executable, "-c", code)
    workers = RoleSpec(
        name="worker",
        replicas=num_workers,
        command=command,
        restart=restart,
        num_ports=int(restart == "all"),
        env=env or {},
    )
    if restart == "all":
        return JobSpec(name="test", roles=(workers,))
    serve = (sys.executable, "-c", f"{SAY_PLACE}{SERVE}")
    servers = RoleSpec(name="server", replicas=1, command=serve, num_ports=1)
    return JobSpec(name="test", roles=(workers, servers))


def run(launcher, job, folder, *, stop_when=lambda: False):
    """Run a job to its end, and check that nothing of it is left."""
    before = children_of_this_process()  # such as the resource tracker of multiprocessing
    with contextlib.closing(launcher.start(job, folder)) as running:
        asked = []

        def is_over():
            if not asked and stop_when():
                asked.append(running.stop())
            return running.poll() is not None

        wait_until(is_over, "the end of the job")
        outcome = running.poll()
        logs = running.logs()
    assert sorted(log.name for log in logs) == sorted(
        role.log(index) for role in job.roles for index in range(role.replicas)
    )
    assert not [pid for pid in children_of_this_process() - before if is_running(pid)]
    return outcome


def children_of_this_process():
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def environments(log):
    """Return the environment of every start of a replica, as it printed it."""
    lines = log.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def die_once(folder, how):
    """Return the code of workers of which number 1 ends so, once number 0 runs; but only once."""
    return (
        f"{SAY_PLACE}"
        f"mark = pathlib.Path({str(folder / 'died')!r})\n"
        f"other = pathlib.Path({str(folder / 'worker.0')!r})\n"
        "if rank == 1 and not mark.exists():\n"
        "    while not other.read_text(): time.sleep(0.01)\n"
        "    mark.touch()\n"
        f"    {how}\n"
        "while not mark.exists(): time.sleep(0.01)\n"
    )


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def test_a_job_whose_workers_end_well_has_status_0(launcher, restart, tmp_path):
    outcome = run(launcher(), make_job(restart, "print('done')"), tmp_path)
    assert (outcome.status, outcome.failed, outcome.log) == (0, "", None)
    assert (tmp_path / "worker.1").read_text() == "done\n"


def test_every_replica_reads_its_place_from_its_environment(launcher, restart, tmp_path):
    env = {"OWN": "value of ${rank}"}
    code = SAY_PLACE
    if restart == "each":  # a server is ended when all workers have ended: it may not have begun
        log = tmp_path / "server.0"
        code += f"while 'serving' not in pathlib.Path({str(log)!r}).read_text(): time.sleep(0.01)\n"
    assert run(launcher(), make_job(restart, code, env=env), tmp_path).status == 0
    found = [environments(tmp_path / f"worker.{rank}")[0] for rank in range(2)]
    assert [variables["OWN"] for variables in found] == ["value of 0", "value of 1"]
    places = [place_of(variables) for variables in found]
    assert [(p.role, p.rank, p.size, p.local_rank) for p in places] == [
        ("worker", 0, 2, 0),
        ("worker", 1, 2, 1),
    ]
    assert [p.incarnation for p in places] == [0, 0]
    assert len({(p.server_endpoints, p.store) for p in places}) == 1
    if restart == "all":
        assert places[0].store is not None
        assert [p.is_store_host for p in places] == [True, False]
        return
    server = place_of(environments(tmp_path / "server.0")[0])
    assert (server.role, server.rank, server.size) == ("server", 0, 1)
    assert server.server_endpoints == places[0].server_endpoints


def test_a_killed_worker_is_restarted_and_ranks_all_at_once(launcher, restart, tmp_path, caplog):
    assert run(launcher(), make_job(restart, die_once(tmp_path, KILL)), tmp_path).status == 0
    counts = [
        [place_of(variables).incarnation for variables in environments(tmp_path / f"worker.{rank}")]
        for rank in range(2)
    ]
    assert counts == ([[0], [0, 1]] if restart == "each" else [[0, 1], [0, 1]])
    (message,) = caplog.messages
    assert "was killed by SIGKILL" in message
    assert message.endswith("(1 of 3)")


@pytest.mark.parametrize("status", [1, 2])
def test_a_mistake_is_not_retried_and_its_log_is_shown(launcher, restart, tmp_path, status):
    mistake = die_once(tmp_path, f"print('no such slot', flush=True); sys.exit({status})")
    hang = mistake.replace("while not mark.exists(): time.sleep(0.01)", "time.sleep(600)")
    outcome = run(launcher(), make_job(restart, hang), tmp_path)
    assert outcome.status == status
    assert outcome.log == tmp_path / "worker.1"
    assert outcome.tail[-1] == "no such slot"
    name = "worker.1" if restart == "each" else "rank 1"
    assert outcome.failed == f"{name} ended with status {status}"
    assert len(environments(tmp_path / "worker.1")) == 1


@pytest.mark.parametrize("status", [70, 75])
def test_a_worker_that_asks_for_another_try_gets_one(launcher, restart, tmp_path, status):
    once = die_once(tmp_path, f"os._exit({status})")
    assert run(launcher(), make_job(restart, once), tmp_path).status == 0
    assert len(environments(tmp_path / "worker.1")) == 2


def test_restarts_are_limited(launcher, restart, tmp_path):
    code = f"{SAY_PLACE}if rank == 1: {KILL}\ntime.sleep(600)\n"
    job = make_job(restart, code)
    outcome = run(launcher(policy={"max_restarts": 1}), job, tmp_path)
    assert outcome.status == 128 + signal.SIGKILL
    assert outcome.failed.endswith("1 was killed by SIGKILL after 1 restarts")
    assert len(environments(tmp_path / "worker.1")) == 2


def test_a_role_that_is_never_restarted_stops_the_job(launcher, tmp_path):
    outcome = run(launcher(), make_job("never", die_once(tmp_path, KILL)), tmp_path)
    assert outcome.status == 128 + signal.SIGKILL
    assert len(environments(tmp_path / "worker.1")) == 1


def test_a_stopped_job_lets_its_workers_save(launcher, restart, tmp_path):
    code = (
        f"{SAY_PLACE}"
        "def save(*_): print('saved', flush=True); sys.exit(130)\n"
        "signal.signal(signal.SIGINT, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    logs = [tmp_path / "worker.0", tmp_path / "worker.1"]

    def all_ready():
        return all("ready" in log.read_text() for log in logs)

    outcome = run(launcher(), make_job(restart, code), tmp_path, stop_when=all_ready)
    assert outcome.status == 130
    assert outcome.was_stopped
    assert all(log.read_text().endswith("ready\nsaved\n") for log in logs)


def test_a_closed_job_leaves_no_process_behind(launcher, restart, tmp_path):
    job = make_job(restart, HANG)
    logs = [tmp_path / "worker.0", tmp_path / "worker.1"]
    with contextlib.closing(launcher().start(job, tmp_path)) as running:
        assert running.poll() is None
        wait_until(lambda: all(len(numbers_in(log)) == 1 for log in logs), "all to start")
    pids = numbers_in(*logs)
    assert len(pids) == 2
    wait_until_gone(*pids)


def test_logs_of_an_earlier_larger_job_are_removed(launcher, restart, tmp_path):
    run(launcher(), make_job(restart, "print('old')", num_workers=3), tmp_path)
    (tmp_path / "worker.notes").write_text("mine")
    run(launcher(), make_job(restart, "print('new')"), tmp_path)
    names = {path.name for path in tmp_path.glob("worker.*")}
    assert names == {"worker.0", "worker.1", "worker.notes"}
    assert (tmp_path / "worker.0").read_text() == "new\n"


def test_logs_of_a_resumed_job_are_kept(launcher, restart, tmp_path):
    for word in ("first", "second"):
        run(launcher(keep_logs=True), make_job(restart, f"print('{word}')"), tmp_path)
    assert (tmp_path / "worker.0").read_text() == "first\nsecond\n"


def test_a_rendered_job_shows_its_roles_and_no_secret(launcher, restart, tmp_path):
    job = make_job(restart, "print('done')", env={"FLEETREC_TOKEN": "hush", "CPU_NUM": "2"})
    paths = launcher().render(job, tmp_path / "job")
    text = "".join(path.read_text() for path in paths)
    assert "print('done')" in text
    assert "CPU_NUM" in text
    assert "hush" not in text


def test_a_supervised_place_says_so(launcher, restart, tmp_path):
    run(launcher(prepares_run=True), make_job(restart, SAY_PLACE), tmp_path)
    assert place_of(environments(tmp_path / "worker.0")[0]).is_supervised


# Ranks: who is to blame when one rank ends because of another.


def lose_the_other(folder, how):
    """Rank 0 asks for another try, as one does that has lost rank 1; then rank 1 ends so."""
    return (
        f"{SAY_PLACE}"
        "if rank == 0:\n"
        "    print('lost rank 1', flush=True)\n"
        "    sys.exit(75)\n"
        f"log = pathlib.Path({str(folder / 'worker.0')!r})\n"
        "while 'lost rank 1' not in log.read_text(): time.sleep(0.01)\n"
        f"{how}\n"
    )


def test_a_rank_that_lost_another_is_not_to_blame(launcher, tmp_path):
    code = lose_the_other(tmp_path, "print('no such slot', flush=True); sys.exit(2)")
    outcome = run(launcher(), make_job("all", code), tmp_path)
    assert outcome.failed == "rank 1 ended with status 2"
    assert outcome.tail[-1] == "no such slot"
    assert len(environments(tmp_path / "worker.0")) == 1


def test_ranks_that_lost_a_hanging_one_are_all_restarted(launcher, tmp_path):
    code = (
        f"{SAY_PLACE}"
        "if os.environ['FLEETREC_INCARNATION'] == '0':\n"
        "    if rank == 1: time.sleep(600)\n"
        "    sys.exit(75)\n"
    )
    policy = {"stop_timeout_s": 0.3}
    outcome = run(launcher(policy=policy), make_job("all", code), tmp_path)
    assert outcome.status == 0
    assert len(environments(tmp_path / "worker.1")) == 2


def test_the_port_of_the_store_is_held_on_loopback_and_can_be_listened_on_again(launcher, tmp_path):
    listen = (
        f"{SAY_PLACE}"
        "import socket\n"
        "host, _, port = os.environ['FLEETREC_STORE'].rpartition(':')\n"
        "if rank == 0:\n"
        "    store = socket.socket()\n"
        "    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "    store.bind((host, int(port)))\n"
        "    store.listen()\n"
        "    print('listening', flush=True)\n"
        "    if os.environ['FLEETREC_INCARNATION'] == '0': time.sleep(600)\n"
        "elif os.environ['FLEETREC_INCARNATION'] == '0':\n"
        "    while True:\n"
        "        try: socket.create_connection((host, int(port))); break\n"
        "        except OSError: time.sleep(0.01)\n"
        f"    {KILL}\n"
    )
    outcome = run(launcher(), make_job("all", listen), tmp_path)
    assert outcome.status == 0, outcome.tail
    found = environments(tmp_path / "worker.0")
    assert [variables["FLEETREC_INCARNATION"] for variables in found] == ["0", "1"]
    (store,) = {variables["FLEETREC_STORE"] for variables in found}
    assert store.startswith("127.0.0.1:")
    with socket.socket() as after:  # given back with the job
        after.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        after.bind(("127.0.0.1", int(store.rpartition(":")[2])))
