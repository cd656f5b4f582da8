"""Jobs that Open MPI runs on two hosts, which are network namespaces of this machine."""

import time

import pytest

from multiprocess.launching import wait_until
from network_hosts import INTERFACE, missing_programs
from slow.engine_jobs import MANY_EPOCHS, NAMES, submit

MISSING = missing_programs("mpirun")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"Open MPI: {MISSING}")]


@pytest.fixture
def start(tmp_path, hosts, expected):
    """Submit a job to both hosts."""
    section = {"hosts": list(NAMES), "remote_shell": str(hosts.shell), "interface": INTERFACE}

    def submit_to_both(fleet_mode, more=(), **runner):
        folder, keys = tmp_path / "work", section | dict(more)
        return submit(
            hosts, folder, expected.data, fleet_mode, backend="mpi", section=keys, **runner
        )

    return submit_to_both


@pytest.mark.parametrize("fleet_mode", ["ps", "collective"])
def test_a_job_on_two_hosts_equals_the_local_cluster(start, expected, hosts, fleet_mode):
    job = start(fleet_mode)
    assert "tail -F" in job.output
    job.check_result(expected.result(fleet_mode))
    lines = job.ask("logs").stdout.splitlines()
    assert any(line.startswith("worker.0: ") and "Runner train Finish" in line for line in lines)
    if fleet_mode == "ps":
        served = [line for line in lines if "serves on" in line]
        assert [address in line for address, line in zip(hosts.addresses, served, strict=True)]
    assert not any(hosts.pids(name) for name in NAMES)


@pytest.mark.parametrize("role", ["server", "worker", "rank"])
def test_a_killed_process_costs_nothing(start, expected, role):
    fleet_mode = "collective" if role == "rank" else "ps"
    job = start(fleet_mode)
    job.wait_for_steps()
    job.kill("node-b", role=role)
    job.check_result(expected.result(fleet_mode))
    said = job.ask("logs").stdout
    assert "was killed by SIGKILL; started again (1 of 3)" in said or role == "rank"


@pytest.mark.parametrize("fleet_mode", ["ps", "collective"])
def test_a_link_that_is_cut_and_restored_costs_nothing(start, expected, hosts, fleet_mode):
    job = start(fleet_mode)
    job.wait_for_steps()
    hosts.cut("node-b")
    try:
        # Nothing can go on: the workers wait for each other, or for the servers there.
        assert job.state == "running"
    finally:
        hosts.restore("node-b")
    job.check_result(expected.result(fleet_mode))


def test_a_host_that_is_lost_ends_the_job_in_time(start, hosts):
    job = start("ps", {"host_timeout": 10})
    job.wait_for_steps()
    hosts.cut("node-b")
    cut_at = time.monotonic()
    assert job.wait_for_end() == "failed"
    assert time.monotonic() - cut_at < 60  # 10, and what a busy machine needs to end the job
    assert "lost communication" in job.ask("logs").stdout
    wait_until(lambda: not hosts.pids("node-a"), "the processes on the other host to end")


def test_a_cancelled_job_leaves_no_process_on_any_host(start, hosts):
    job = start("ps", epochs=MANY_EPOCHS)
    job.wait_for_steps()
    assert job.state == "running"
    assert all(hosts.pids(name) for name in NAMES)
    done = job.ask("cancel")
    assert done.returncode == 0, done.stderr
    assert job.state == "cancelled"
    wait_until(lambda: not any(hosts.pids(name) for name in NAMES), "all processes to end")


def test_a_mistake_ends_the_job_with_its_message(start, hosts):
    job = start("ps", init_model_path="nowhere")
    assert job.wait_for_end() == "failed"
    assert "nowhere" in job.ask("logs").stdout
    wait_until(lambda: not any(hosts.pids(name) for name in NAMES), "all processes to end")
