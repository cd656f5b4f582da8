"""Runners with fleet_mode collective: ranks on one machine, as a user runs them."""

import os
import signal
import subprocess
import sys

import pytest

from making import make_data, make_job, tensors_of, write_job
from multiprocess.launching import children_of, started, wait_until, wait_until_gone

pytestmark = pytest.mark.multiprocess


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("ranks") / "data", num_samples=6000, num_files=3)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory, data):
    """What the job leaves behind when nobody disturbs it."""
    folder = tmp_path_factory.mktemp("unbroken")
    write_rank_job(folder, data)
    done = subprocess.run(
        command(), cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks" in done.stdout
    assert "SAMPLES=[6000]" in done.stdout
    assert (folder / "logs/worker.1").is_file()
    return tensors_of(folder / "ckpt/1")


def write_rank_job(folder, data, **runner):
    job = make_job(data, batch_size=16, save_checkpoint_interval=1)
    job["runner"][0] |= {
        "class": "local_cluster_train",
        "fleet_mode": "collective",
        "worker_num": 2,
        "print_interval": 10,
        "save_step_path": "steps",
        "save_step_interval": 50,
        **runner,
    }
    job["hyper_parameters"]["distributed_embedding"] = 1
    return write_job(job, folder / "config.yaml")


def command(*arguments):
    return [sys.executable, "-m", "fleetrec", "run", "-m", "config.yaml", *arguments]


def running(folder, *arguments):
    return started(command(*arguments), folder)


def ranks_of(supervisor):
    """Return the pids of a job's ranks, in their order."""
    children = children_of(supervisor).items()
    found = {int(env["RANK"]): pid for pid, env in children if "FLEETREC_STORE" in env}
    return [found[rank] for rank in sorted(found)]


def wait_for_steps(folder):
    wait_until((folder / "steps/epoch_0_batch_100/MANIFEST.json").is_file, "a checkpoint")


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_killed_rank_costs_nothing(tmp_path, data, unbroken, rank):
    write_rank_job(tmp_path, data)
    with running(tmp_path) as supervisor:
        wait_for_steps(tmp_path)
        os.kill(ranks_of(supervisor)[rank], signal.SIGKILL)
        output, _ = supervisor.communicate(timeout=200)
    assert supervisor.returncode == 0, output
    assert "resumed from" in (tmp_path / "logs/worker.0").read_text()
    assert tensors_of(tmp_path / "ckpt/1") == unbroken


def test_a_stopped_job_saves_itself_and_goes_on(tmp_path, data, unbroken):
    write_rank_job(tmp_path, data)
    with running(tmp_path) as supervisor:
        wait_for_steps(tmp_path)
        pids = ranks_of(supervisor)
        supervisor.send_signal(signal.SIGINT)
        output, _ = supervisor.communicate(timeout=200)
    assert supervisor.returncode == 130, output
    assert "resume with the same command and --resume" in output
    for pid in pids:
        wait_until_gone(pid)
    done = subprocess.run(
        command("--resume"), cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert tensors_of(tmp_path / "ckpt/1") == unbroken


def test_no_rank_survives_its_supervisor(tmp_path, data):
    write_rank_job(tmp_path, data)
    with running(tmp_path) as supervisor:
        wait_for_steps(tmp_path)
        pids = ranks_of(supervisor)
        assert len(pids) == 2
        supervisor.kill()
    for pid in pids:
        wait_until_gone(pid)


def test_a_rank_that_does_not_answer_is_named_in_time(tmp_path, data):
    write_rank_job(tmp_path, data, rank_timeout=3, max_restarts=0)
    with running(tmp_path) as supervisor:
        wait_for_steps(tmp_path)
        lazy = ranks_of(supervisor)[1]
        os.kill(lazy, signal.SIGSTOP)
        try:
            wait_until(
                lambda: "rank 1 of 2 took no part" in (tmp_path / "logs/worker.0").read_text(),
                "an error that names the rank",
            )
        finally:
            os.kill(lazy, signal.SIGCONT)
        output, _ = supervisor.communicate(timeout=200)
    assert supervisor.returncode == 75, output
    said = (tmp_path / "logs/worker.0").read_text()
    assert "slower than 3 s (rank_timeout)" in said
    assert "Traceback" not in said


def test_a_mistake_ends_the_job_with_the_log_that_tells(tmp_path, data):
    write_rank_job(tmp_path, data, init_model_path="nowhere", max_restarts=0)
    done = subprocess.run(
        command(), cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode != 0
    assert "nowhere" in done.stderr
