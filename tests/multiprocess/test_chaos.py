"""A few of the faults of ``make chaos``, under the real supervisor."""

import numpy as np
import pytest

from chaos import whole_job
from chaos.kills import all_kills, inject
from chaos.running import RunningJob
from chaos.workspace import Plan, make_workspace, problems_of, result_of

pytestmark = pytest.mark.multiprocess

PLAN = Plan(num_epochs=5, num_steps=15)
PLACES = {
    ("server", "push_logged"),
    ("server", "step_logged"),
    ("worker", "answered"),
    ("worker", "save"),
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """What the job leaves if nobody disturbs it."""
    folder = tmp_path_factory.mktemp("unbroken")
    make_workspace(folder, PLAN)
    with RunningJob(folder) as job:
        assert job.wait() == 0, job.tails()
    return [result_of(folder, PLAN)]


def test_deaths_at_the_worst_moments_leave_no_trace(tmp_path, unbroken):
    make_workspace(tmp_path, PLAN)
    kills = [kill for kill in all_kills() if (kill.role, kill.place) in PLACES]
    with RunningJob(tmp_path) as job:
        injected = inject(job, kills, np.random.default_rng(5))
        assert job.wait() == 0, job.tails()
    assert len(injected) == len(PLACES)
    assert problems_of(result_of(tmp_path, PLAN), PLAN, unbroken) == []


@pytest.mark.slow
def test_a_torn_log_and_a_chief_that_dies_before_its_first_step_leave_no_trace(tmp_path, unbroken):
    rng = np.random.default_rng(6)
    make_workspace(tmp_path, PLAN)
    with RunningJob(tmp_path) as job:
        assert len(whole_job.tear_journal(job, rng)) == 1
        whole_job.kill_supervisor(job, rng)
    whole_job.forget_servers(tmp_path)
    with RunningJob(tmp_path, "--resume") as job:
        order = job.order("worker.0", "push")
        assert job.wait_for(lambda: not order.exists(), "the first push of the chief")
        assert job.wait() == 0, job.tails()
    assert problems_of(result_of(tmp_path, PLAN), PLAN, unbroken) == []
