"""Online runs are killed at every boundary and go on: as if nothing had happened.

The kills are those of ``make chaos``. Processes are forks of one that has torch imported, in slow
tests too: each of them starts hundreds.
"""

import subprocess

import numpy as np
import pytest

from chaos import online_rounds
from chaos.online import OnlinePlan
from chaos.run import OnlineChaos
from warm_start import WarmPopen, template

pytestmark = pytest.mark.multiprocess

NUM_KILLS = 60  # at least, of one process and of servers and workers
SHORT = {"num_samples": 64, "batch_size": 8}
SHORT_SYNC = OnlinePlan(mode="sync", **SHORT)
SHORT_RANKS = OnlinePlan(mode="ranks", **SHORT)
PLACES = {
    ("server", "step_logged"),
    ("server", "save"),
    ("worker", "evaluated"),
    ("worker", "donefile"),
    ("worker", "serving_rows"),
}


@pytest.fixture(autouse=True)
def forked(monkeypatch):
    monkeypatch.setattr(WarmPopen, "fork", lambda *given: template().fork(*given), raising=False)
    monkeypatch.setattr(subprocess, "Popen", WarmPopen)


def disturbed(folder, plan, disturb, *, seeds=(0,)):
    """Make a run with every seed; returns the faults of all, after all were as undisturbed ones."""
    chaos = OnlineChaos(folder, 0)
    for seed in seeds:
        chaos.run(
            f"{plan.mode}, seed {seed}",
            plan,
            lambda its, _, run, seed=seed: disturb(its, np.random.default_rng(seed), run),
        )
    assert [(run.name, run.problems) for run in chaos.runs if run.problems] == []
    return [one.name for run in chaos.runs for one in run.injected]


def test_a_run_that_is_killed_at_every_boundary_leaves_what_an_unbroken_one_leaves(tmp_path):
    def disturb(folder, rng, run):
        online_rounds.killed_process(folder, rng, run, num_random=0)

    killed = disturbed(tmp_path, online_rounds.ONE, disturb)
    assert set(killed) == {f"online: {words}" for words in online_rounds.POINTS}


def test_killed_servers_and_workers_leave_what_unbroken_ones_leave(tmp_path):
    def disturb(folder, rng, run):
        online_rounds.killed_cluster(folder, rng, run, places=PLACES)

    assert len(disturbed(tmp_path, SHORT_SYNC, disturb)) >= 3


def test_a_killed_supervisor_is_replaced_by_the_same_command(tmp_path):
    def disturb(folder, rng, run):
        online_rounds.orphaned(folder, rng, run, times=1)

    assert len(disturbed(tmp_path, SHORT_SYNC, disturb)) == 1


def test_a_killed_rank_lets_all_start_again_from_the_last_checkpoint(tmp_path):
    def disturb(folder, rng, run):
        online_rounds.killed_ranks(folder, rng, run, places=("compute", "publish"))

    assert len(disturbed(tmp_path, SHORT_RANKS, disturb)) == 2


@pytest.mark.slow
def test_many_kills_of_one_process_leave_no_trace(tmp_path):
    disturb = online_rounds.killed_process
    assert len(disturbed(tmp_path, online_rounds.ONE, disturb, seeds=range(1, 8))) >= NUM_KILLS


@pytest.mark.slow
def test_many_kills_of_servers_and_workers_leave_no_trace(tmp_path):
    disturb = online_rounds.killed_cluster
    assert len(disturbed(tmp_path, online_rounds.SYNC, disturb, seeds=range(1, 5))) >= NUM_KILLS


@pytest.mark.slow
def test_kills_of_workers_that_do_not_wait_for_each_other_lose_no_sample(tmp_path):
    disturb = online_rounds.killed_cluster
    assert len(disturbed(tmp_path, online_rounds.ASYNC, disturb, seeds=range(2))) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("plan", [online_rounds.SYNC, online_rounds.ASYNC], ids=lambda p: p.mode)
def test_servers_that_lose_their_state_continue_from_the_last_checkpoint(tmp_path, plan):
    """In async the workers are ahead of a chief that was killed: their steps are in it, too."""
    assert len(disturbed(tmp_path, plan, online_rounds.lost_servers, seeds=range(3))) == 12


@pytest.mark.slow
def test_many_kills_of_supervisors_and_ranks_leave_no_trace(tmp_path):
    for plan, disturb in (
        (online_rounds.SYNC, online_rounds.orphaned),
        (online_rounds.RANKS, online_rounds.killed_ranks),
    ):
        assert len(disturbed(tmp_path / plan.mode, plan, disturb, seeds=range(3))) >= 6
