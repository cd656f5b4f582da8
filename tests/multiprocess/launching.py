"""Small programs as the servers and workers of a job, and what the system knows of them."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from fleetrec.launch.job_spec import JobSpec, RoleSpec
from fleetrec.launch.local import LocalLauncher, run_job
from fleetrec.launch.placement import assign_replicas
from fleetrec.launch.supervisor import Policy
from warm_start import environment_of

DEADLINE_S = 180.0
SERVE = "import time; time.sleep(600)"


def make_job(*, server=SERVE, worker="", num_servers=1, num_workers=1):
    """Every process runs a piece of Python."""
    return JobSpec(
        name="test",
        roles=(
            RoleSpec(
                name="server",
                replicas=num_servers,
                command=(sys.executable, "-c", server),
                num_ports=1,
            ),
            RoleSpec(name="worker", replicas=num_workers, command=(sys.executable, "-c", worker)),
        ),
    )


def make_rank_job(rank, *, num_ranks=2):
    """Every rank runs a piece of Python."""
    command = (sys.executable, "-c", rank)
    ranks = RoleSpec(name="worker", replicas=num_ranks, command=command, num_ports=1, restart="all")
    return JobSpec(name="test", roles=(ranks,))


def supervise(folder, job, *, should_stop=lambda: False, watch=lambda _: None, **policy):
    """Run a whole job in this process; returns its outcome."""
    waits = {"save_timeout_s": 20.0, "stop_timeout_s": 20.0, **policy}
    placement = assign_replicas(
        num_workers=job.workers.replicas,
        num_servers=job.servers.replicas if job.servers else 0,
    )
    launcher = LocalLauncher(policy=Policy(**waits), placement=placement)
    with contextlib.closing(launcher.start(job, folder)) as running:
        return run_job(running, should_stop=should_stop, watch=watch)


@contextlib.contextmanager
def started(command, folder):
    """Run a supervisor while the block lasts; what it says is its output."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as supervisor:
        try:
            yield supervisor
        finally:
            supervisor.kill()


def children_of(supervisor):
    """Return the pids of its children, each with its environment."""
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
    found = {}
    for pid in map(int, children):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[pid] = environment_of(pid)
    return found


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


def wait_until_gone(*pids):
    for pid in pids:
        wait_until(lambda pid=pid: not is_running(pid), f"process {pid} to end")


def numbers_in(*logs):
    """Return the numbers that programs have printed, a line each."""
    return [int(line) for log in logs for line in log.read_text().splitlines() if line.isdecimal()]
