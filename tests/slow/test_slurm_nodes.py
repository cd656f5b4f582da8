"""Jobs of a real Slurm with two nodes, which are network namespaces of this machine."""

from pathlib import Path

import pytest

from multiprocess.launching import wait_until
from network_hosts import missing_programs
from slow.engine_jobs import MANY_EPOCHS, NAMES, submit
from slurm_cluster import PROGRAMS, slurm_cluster

MISSING = missing_programs(*PROGRAMS)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"Slurm: {MISSING}")]


@pytest.fixture
def start(tmp_path, hosts, expected):
    """Submit a job to a cluster of both hosts."""
    with slurm_cluster(tmp_path / "slurm", hosts) as prefix:

        def submit_to_both(fleet_mode, section, **runner):
            folder = tmp_path / "work"
            return submit(
                hosts,
                folder,
                expected.data,
                fleet_mode,
                backend="slurm",
                section={"partition": "main", **section},
                prefix=prefix,
                **runner,
            )

        yield submit_to_both


def wait_for_no_python(hosts):
    """Slurm's own daemons stay."""

    def commands():
        pids = [pid for name in NAMES for pid in hosts.pids(name)]
        paths = [Path(f"/proc/{pid}/cmdline") for pid in pids]
        return b"".join(path.read_bytes() for path in paths if path.exists())

    wait_until(lambda: b"fleetrec" not in commands(), "all processes to end")


@pytest.mark.parametrize(
    ("fleet_mode", "section"),
    [("ps", {}), ("ps", {"share_nodes": True, "nodes": 2}), ("collective", {"nodes": 2})],
    ids=["components", "shared nodes", "ranks"],
)
def test_a_job_on_two_nodes_equals_the_local_cluster(start, expected, fleet_mode, section):
    job = start(fleet_mode, section)
    assert "squeue -j 1" in job.output
    job.check_result(expected.result(fleet_mode))
    assert "COMPLETED" in job.ask("status").stdout
    lines = job.ask("logs").stdout.splitlines()
    assert any(line.startswith("worker.0: ") and "Runner train Finish" in line for line in lines)


@pytest.mark.parametrize("role", ["server", "worker", "rank"])
def test_a_killed_process_costs_nothing(start, expected, role):
    fleet_mode = "collective" if role == "rank" else "ps"
    job = start(fleet_mode, {"nodes": 2} | ({"share_nodes": True} if role != "rank" else {}))
    job.wait_for_steps()
    job.kill("node-b", role=role)
    job.check_result(expected.result(fleet_mode))


def test_a_link_that_is_cut_and_restored_costs_nothing(start, expected, hosts):
    job = start("ps", {})
    job.wait_for_steps()
    hosts.cut("node-b")
    try:
        assert job.state == "running"
    finally:
        hosts.restore("node-b")
    job.check_result(expected.result("ps"))


def test_a_cancelled_job_leaves_no_process_on_any_node(start, hosts):
    job = start("ps", {}, epochs=MANY_EPOCHS)
    job.wait_for_steps()
    assert job.state == "running"
    done = job.ask("cancel")
    assert done.returncode == 0, done.stderr
    assert job.wait_for_end() == "cancelled"
    wait_for_no_python(hosts)


def test_a_mistake_ends_the_job_with_its_message(start, hosts):
    job = start("ps", {}, init_model_path="nowhere")
    assert job.wait_for_end() == "failed"
    assert "NonZeroExitCode" in job.ask("status").stdout
    assert "nowhere" in job.ask("logs").stdout
    wait_for_no_python(hosts)


def test_a_job_that_is_to_begin_later_is_pending_and_can_be_cancelled(start):
    job = start("ps", {"arguments": "--begin=now+1hour"})
    assert job.state == "pending"
    assert job.ask("cancel").returncode == 0
    assert job.wait_for_end() == "cancelled"
