"""Kills of online runs: of one process, of servers and workers, of ranks, of the supervisor."""

import dataclasses
import shutil
import signal
import time

from chaos import whole_job
from chaos.kills import (
    CHIEF_PLACES,
    SERVER_PLACES,
    WORKER_PLACES,
    Injected,
    Kill,
    at_work,
    inject,
)
from chaos.online import OnlinePlan, OnlineProcess, order
from chaos.running import DEADLINE_S, RunningJob

# Where a run is when it dies, in words, and the place in the code; see core/fault_points.py.
POINTS = {
    "pass frozen": "pass_frozen",
    "pass evaluated": "evaluated",
    "compute": "compute",
    "pass trained": "pass_trained",
    "rows evicted": "evicted",
    "publishing a checkpoint or model": "publish",
    "writing rows for serving": "serving_rows",
    "serving model published": "serving_published",
    "before a line of a done file": "donefile",
}
ANY_MOMENT = "any moment"
MAX_COUNT = {"compute": 6}  # of others 2: no kill comes later than a pass after the one before
MAX_DELAY_S = 0.2  # after a pass was frozen: it is evaluated, trained or saved
CHIEF_ONLY = ("pass_frozen", "publish", "serving_rows", "serving_published", "donefile")
ONE = OnlinePlan(mode="one process", num_days=4)
LONG = {"num_days": 4, "minutes": 240, "num_samples": 160, "batch_size": 8}
SYNC = OnlinePlan(mode="sync", **LONG)
ASYNC = OnlinePlan(mode="async", **LONG)
RANKS = OnlinePlan(mode="ranks")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnlineKill(Kill):
    """A death of a worker at a point of online runs; only the chief comes by some of them."""

    @property
    def indexes(self):
        return (0,) if self.place in CHIEF_ONLY else super().indexes


def killed_process(folder, rng, run, *, words=tuple(POINTS), num_random=2):
    """One process: a death at each of some points, and at random moments; restarted after each."""
    deaths = [*words, *[ANY_MOMENT] * num_random]
    for index in rng.permutation(len(deaths)):
        one = deaths[index]
        begin = time.monotonic()
        with OnlineProcess(folder) as process:
            if one == ANY_MOMENT:
                placed = order(process.faults, "pass_frozen", word="note")
                status = _kill_later(process, placed, float(rng.uniform(0, MAX_DELAY_S)))
            else:
                point = POINTS[one]
                count = int(rng.integers(1, MAX_COUNT.get(point, 2) + 1))
                placed = order(process.faults, point, count=count)
                status = process.wait()
                placed.unlink(missing_ok=True)  # the run may have ended before
            if status == 0:
                break
            assert status == -signal.SIGKILL, f"{one}: status {status}\n{process.tail()}"
        run.injected.append(Injected(name=f"online: {one}", seconds=time.monotonic() - begin))
    with OnlineProcess(folder) as process:
        status = process.wait()
        assert status == 0, f"status {status}\n{process.tail()}"


def _kill_later(process, note, delay_s):
    """Kill a run some time after it has come by a point; returns its status."""
    deadline = time.monotonic() + DEADLINE_S
    while note.exists() and process.process.poll() is None:
        assert time.monotonic() < deadline, f"no pass has begun\n{process.tail()}"
        time.sleep(0.005)
    time.sleep(delay_s)  # the moment is the point: there is no condition to wait for
    process.process.kill()
    return process.wait()


def server_kills(places=None):
    """Return deaths of servers, workers and the chief, in the order of the code."""
    by_role = {"server": SERVER_PLACES, "worker": WORKER_PLACES | CHIEF_PLACES}
    kills = [
        Kill(role=role, words=words, place=place)
        for role, its in by_role.items()
        for words, place in its.items()
    ]
    known = {kill.place for kill in kills if kill.role == "worker"}
    kills += [
        OnlineKill(role="worker", words=words, place=place)
        for words, place in POINTS.items()
        if place not in known
    ]
    return [kill for kill in kills if places is None or (kill.role, kill.place) in places]


def killed_cluster(folder, rng, run, *, places=None):
    """Servers and workers: each of their deaths once, in one run."""
    with RunningJob(folder, verb="online") as job:
        run.injected += _named(inject(job, server_kills(places), rng))
        finish(job)


def killed_ranks(folder, rng, run, *, places=("compute", "pass_trained", "publish", "evaluated")):
    """Ranks: one of them dies, and all start again."""
    kills = [OnlineKill(role="worker", words=w, place=p) for w, p in POINTS.items() if p in places]
    with RunningJob(folder, verb="online") as job:
        for index in rng.permutation(len(kills)):
            placed = job.order(f"worker.{rng.choice(kills[index].indexes)}", kills[index].place)
            if not job.wait_for(lambda placed=placed: not placed.exists(), kills[index].name):
                break
            run.injected.append(Injected(name=f"online ranks: {kills[index].words}"))
        job.cancel_orders()
        finish(job)


def orphaned(folder, rng, run, *, times=3):
    """The supervisor dies; the same command continues."""
    for number in range(times + 1):
        with RunningJob(folder, verb="online") as job:
            if number == times:
                finish(job)
            else:
                whole_job.kill_supervisor(job, rng)
                run.injected.append(Injected(name="online: supervisor: kill -9"))


def lost_servers(folder, rng, run, *, times=2):
    """The chief dies before its first step of a pass, then all die, and servers lose their state.

    The run continues from the last checkpoint, which the second chief has written again.
    """
    for number in range(times + 1):
        with RunningJob(folder, verb="online") as job:
            if number == times:
                finish(job)
                return
            place = ("evaluated", "compute")[number % 2]
            assert whole_job.some_steps(job, rng), job.tails()
            frozen = job.order("worker.0", "pass_frozen", word="note")
            assert job.wait_for(lambda its=frozen: not its.exists(), "a pass"), job.tails()
            placed = job.order("worker.0", place)
            assert job.wait_for(lambda its=placed: not its.exists(), place), job.tails()
            run.injected.append(Injected(name=f"online worker: the chief, {place}"))
            at_work(job, "worker.0")
            whole_job.kill_supervisor(job, rng)
        shutil.rmtree(folder / f"logs/{folder.name}.online/servers")
        run.injected.append(Injected(name="online: all processes, with the state of servers"))


def finish(job):
    """Let the job come to its end, unaided."""
    status = job.wait()
    assert status == 0, f"the job ended with status {status}\n{job.tails()}"


def _named(injected):
    return [dataclasses.replace(one, name=f"online {one.name}") for one in injected]
