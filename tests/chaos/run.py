"""``make chaos``: the kill matrix of the parameter server and of online runs, on real processes.

Every run has to end by itself, as if nothing had happened: in ``sync`` with the same tables, the
same weights and the same figures; in every mode with each sample counted exactly once per epoch.
Online runs also publish what an undisturbed run publishes.
"""

import argparse
import collections
import contextlib
import dataclasses
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from chaos import online_rounds, whole_job
from chaos.kills import Injected, all_kills, at_work, inject
from chaos.online import (
    OnlineProcess,
    make_online_workspace,
    online_audit,
    online_problems,
    online_result,
)
from chaos.running import RunningJob, StuckError
from chaos.workspace import Plan, audit, make_workspace, problems_of, result_of

MERGING = {"communicator": {"FLAGS_communicator_max_merge_var_num": 2}}
SYNC = Plan()
ASYNC = Plan(mode="async")
NUM_UNBROKEN = 5  # of a mode in which no two runs are equal
HALF_ASYNC = Plan(mode="half_async", extra=MERGING)


@dataclasses.dataclass(slots=True, kw_only=True)
class Run:
    """One job that was disturbed: by what, and what is wrong with its result."""

    name: str
    injected: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)
    audit: str = "not made"
    seconds: float = 0.0


class Chaos:
    """Makes disturbed runs, and judges them by one that nothing disturbs."""

    num_unbroken = NUM_UNBROKEN

    def __init__(self, folder, seed):
        self._folder = folder
        self._seed = seed
        self.runs = []
        self._unbroken = {}

    def unbroken(self, plan):
        """Return results of a job that nobody disturbs; others of its mode are judged by them."""
        if plan.mode not in self._unbroken:
            count = 1 if plan.mode == "sync" else self.num_unbroken
            self._unbroken[plan.mode] = [self._run_unbroken(plan, i) for i in range(count)]
        return self._unbroken[plan.mode]

    def _run_unbroken(self, plan, number):
        folder = self._folder / f"unbroken_{plan.mode}_{number}"
        self.prepare(folder, plan)
        self.run_alone(folder, plan)
        return self.result(folder, plan)

    def prepare(self, folder, plan):
        make_workspace(folder, plan)

    def run_alone(self, folder, plan):
        del plan
        with RunningJob(folder) as job:
            assert job.wait() == 0, job.tails()

    def result(self, folder, plan):
        return result_of(folder, plan)

    def audit(self, result, plan):
        return audit(result, plan)

    def problems(self, result, plan, unbroken):
        return problems_of(result, plan, unbroken)

    def run(self, name, plan, disturb):
        """Make a workspace, let ``disturb`` run the job to its end, and judge the result."""
        unbroken = self.unbroken(plan)
        folder = self._folder / f"run{len(self.runs)}"
        self.prepare(folder, plan)
        run = Run(name=name)
        rng = np.random.default_rng([self._seed, len(self.runs)])
        begin = time.monotonic()
        try:
            disturb(folder, rng, run)
            result = self.result(folder, plan)
            run.audit = "WRONG" if self.audit(result, plan) else "exact"
            run.problems += self.problems(result, plan, unbroken)
        except (AssertionError, StuckError) as error:
            run.problems.append(str(error))
        run.seconds = time.monotonic() - begin
        self.runs.append(run)
        verdict = "sound" if not run.problems else "; ".join(run.problems)
        print(f"{run.name}: {len(run.injected)} faults, {run.seconds:.0f} s: {verdict}", flush=True)
        if not run.problems:
            shutil.rmtree(folder)


class OnlineChaos(Chaos):
    """The same for online runs, of one process or several."""

    num_unbroken = 1

    def prepare(self, folder, plan):
        make_online_workspace(folder, plan)

    def run_alone(self, folder, plan):
        if plan.mode != online_rounds.ONE.mode:
            with RunningJob(folder, verb="online") as job:
                online_rounds.finish(job)
            return
        with OnlineProcess(folder) as process:
            assert process.wait() == 0, process.tail()

    def result(self, folder, plan):
        return online_result(folder, plan)

    def audit(self, result, plan):
        return online_audit(result, plan)

    def problems(self, result, plan, unbroken):
        return online_problems(result, plan, unbroken[0])


def killed(folder, rng, run):
    """Every death of the matrix, once."""
    with RunningJob(folder) as job:
        run.injected += inject(job, all_kills(), rng)
        finish(job)


def stopped(folder, rng, run):
    """A server and a worker that stand still."""
    with RunningJob(folder) as job:
        run.injected += whole_job.stop_and_go_on(job, rng)
        finish(job)


def orphaned(folder, rng, run):
    """A supervisor that dies, three times."""
    for number in range(4):
        arguments = ("--resume",) if number else ()
        begin = time.monotonic()
        with RunningJob(folder, *arguments) as job:
            if number:
                at_work(job, "worker.0")
                seconds = time.monotonic() - begin
                run.injected.append(Injected(name="supervisor: kill -9", seconds=seconds))
            if number == 3:
                finish(job)
            else:
                whole_job.kill_supervisor(job, rng)


def starved(folder, rng, run):
    """Servers whose disk is full for a while."""
    with RunningJob(folder, prefix=whole_job.small_disk(folder)) as job:
        for kills in (False, True, False, True):
            run.injected.append(whole_job.fill_disk(job, rng, kills=kills))
        finish(job)


def torn(folder, rng, run):
    """Last records of the log that were never finished."""
    with RunningJob(folder) as job:
        for _ in range(4):
            run.injected += whole_job.tear_journal(job, rng)
        finish(job)


def damaged(folder, rng, run):
    """Damaged files: the job ends and names them; without them it goes on from a checkpoint."""
    damages = {
        "block of the log": whole_job.damage_journal,
        "state of a snapshot": whole_job.damage_snapshot("state.json"),
        "weights of a snapshot": whole_job.damage_snapshot("dense.safetensors"),
        "table of a snapshot": whole_job.damage_snapshot("tables/*/*"),
    }
    arguments = ()
    for name, damage in damages.items():
        run.problems += whole_job.run_until_refused(folder, rng, damage, *arguments)
        whole_job.forget_servers(folder)
        run.injected.append(Injected(name=f"server: damaged {name}"))
        arguments = ("--resume",)
    with RunningJob(folder, "--resume") as job:
        order = job.order("worker.0", "pull")  # the chief, when others may have begun
        job.wait_for(lambda: not order.exists(), "the first pull")
        run.injected.append(Injected(name="worker: the chief, before its first step"))
        finish(job)


def finish(job):
    """Let the job come to its end, unaided."""
    status = job.wait()
    assert status == 0, f"the job ended with status {status}\n{job.tails()}"


def table_of(runs):
    """Return the lines of a table: every fault, how often it came, and what came of it."""
    by_name = collections.defaultdict(list)
    for run in runs:
        for one in run.injected:
            by_name[one.name].append((one, run))
    row = "{:<46}{:>6}{:>6}{:>11}{:>10}{:>8}  {}".format
    lines = [row("fault", "times", "runs", "recovered", "median s", "max s", "audit")]
    for name in sorted(by_name):
        found = by_name[name]
        seconds = [one.seconds for one, _ in found if one.seconds is not None]
        is_sound = [not run.problems for _, run in found]
        median = f"{statistics.median(seconds):.1f}" if seconds else "-"
        most = f"{max(seconds):.1f}" if seconds else "-"
        audits = ", ".join(sorted({run.audit for _, run in found}))
        num_runs = len({id(run) for _, run in found})
        lines.append(row(name, len(found), num_runs, sum(is_sound), median, most, audits))
    return lines


def has_private_mounts():
    """Tell whether this machine lets a user mount a disk that nobody else sees."""
    probe = "mount -t tmpfs -o size=1m tmpfs /mnt"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", probe]
    with contextlib.suppress(FileNotFoundError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def run_all(chaos, *, num_sync, num_async):
    """Make all runs of the matrix."""
    for _ in range(num_sync):
        chaos.run("killed, sync", SYNC, killed)
    for plan in (ASYNC, HALF_ASYNC):
        for _ in range(num_async):
            chaos.run(f"killed, {plan.mode}", plan, killed)
    chaos.run("stopped, sync", SYNC, stopped)
    chaos.run("stopped, async", ASYNC, stopped)
    chaos.run("supervisor killed", SYNC, orphaned)
    chaos.run("torn log", SYNC, torn)
    chaos.run("damaged files", SYNC, damaged)
    if has_private_mounts():
        chaos.run("full disk, sync", SYNC, starved)
        chaos.run("full disk, async", ASYNC, starved)
    else:
        print("full disk: not tried, for this machine allows no private mounts")


def run_online(chaos, *, num_rounds):
    """Make all runs of the matrix of online runs."""
    for _ in range(num_rounds):
        chaos.run("online, one process", online_rounds.ONE, online_rounds.killed_process)
        chaos.run("online, sync", online_rounds.SYNC, online_rounds.killed_cluster)
        chaos.run("online, async", online_rounds.ASYNC, online_rounds.killed_cluster)
        chaos.run("online, ranks", online_rounds.RANKS, online_rounds.killed_ranks)
        chaos.run("online, supervisor killed", online_rounds.SYNC, online_rounds.orphaned)
        chaos.run("online, servers lost", online_rounds.ASYNC, online_rounds.lost_servers)


def main():
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--sync", type=int, default=5, help="runs of all kills in sync")
    parser.add_argument("--async", dest="num_async", type=int, default=2, help="and in the others")
    parser.add_argument("--online", type=int, default=2, help="rounds of kills of online runs")
    parser.add_argument("--only-online", action="store_true", help="make no other runs")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="fleetrec-chaos-"))
    print(f"seed {given.seed}", flush=True)
    chaos, online = Chaos(folder / "epochs", given.seed), OnlineChaos(folder / "online", given.seed)
    if not given.only_online:
        run_all(chaos, num_sync=given.sync, num_async=given.num_async)
    run_online(online, num_rounds=given.online)
    runs = [*chaos.runs, *online.runs]
    print(*table_of(runs), sep="\n")
    num_faults = sum(len(run.injected) for run in runs)
    wrong = [run for run in runs if run.problems]
    minutes = (time.monotonic() - begin) / 60
    print(f"{num_faults} faults in {len(runs)} runs, {len(wrong)} wrong, {minutes:.0f} minutes")
    if wrong:
        print(f"what the wrong ones left is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
