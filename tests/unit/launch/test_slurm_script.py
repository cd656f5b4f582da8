"""The script for sbatch: what it asks for, and what each task runs."""

import subprocess

import pytest

from fleetrec.config.cluster.slurm import SlurmOptions
from fleetrec.core.errors import ConfigError
from fleetrec.launch.job_spec import JobSpec, Resources, RoleSpec
from fleetrec.launch.slurm import SlurmEngine
from fleetrec.launch.stored_job import read_stored_job

GIB = 1 << 30


def make_job(*, workers=2, servers=0, cpus=None, memory=None, gpus=0):
    needs = Resources(cpus=cpus, memory_bytes=memory, gpus=gpus)
    roles = [RoleSpec(name="worker", replicas=workers, command=("true",), resources=needs)]
    if servers:
        server = Resources(cpus=1, memory_bytes=3 * GIB)
        roles.append(RoleSpec(name="server", replicas=servers, command=("true",), resources=server))
    return JobSpec(name="my job;x", env={"FLEETREC_TOKEN": "hush"}, roles=tuple(roles))


def rendered(folder, job, **options):
    """Return the options of each component of the script, and what the tasks run."""
    SlurmEngine(SlurmOptions(**options)).render(job, folder)
    path = folder / "sbatch.sh"
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert "hush" not in path.read_text()
    directives = [
        line.removeprefix("#SBATCH ")
        for line in path.read_text().splitlines()
        if line.startswith("#SBATCH")
    ]
    parts = " ".join(directives).split(" hetjob ")
    tasks = read_stored_job(folder).tasks
    return [part.split() for part in parts], [(task.servers, task.workers) for task in tasks]


def test_ranks_have_a_node_each_by_default(tmp_path):
    (asked,), tasks = rendered(tmp_path, make_job(cpus=4, memory=2 * GIB, gpus=1))
    assert asked == [
        "--job-name=my_job_x",
        "--output=logs/slurm-%j.out",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=4",
        "--mem-per-cpu=512M",
        "--gpus-per-task=1",
    ]
    assert tasks == [((), (0,)), ((), (1,))]


def test_several_ranks_of_a_node_are_one_task(tmp_path):
    job = make_job(workers=4, cpus=2, memory=GIB, gpus=1)
    (asked,), tasks = rendered(tmp_path, job, nodes=2)
    assert {"--ntasks=2", "--cpus-per-task=4", "--mem-per-cpu=512M", "--gpus-per-task=2"} <= {
        *asked
    }
    assert tasks == [((), (0, 1)), ((), (2, 3))]


def test_memory_without_cpus_is_that_of_the_one_cpu_of_a_task(tmp_path):
    (asked,), _ = rendered(tmp_path, make_job(workers=2, memory=GIB), nodes=1)
    assert "--mem-per-cpu=2048M" in asked
    assert not any(word.startswith("--cpus-per-task") for word in asked)


def test_ranks_that_do_not_fit_the_nodes_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="3 ranks cannot be divided evenly among 2 nodes"):
        rendered(tmp_path, make_job(workers=3), nodes=2)


def test_servers_and_workers_are_components_with_resources_of_their_own(tmp_path):
    job = make_job(workers=2, servers=1, cpus=2)
    (servers, workers), tasks = rendered(tmp_path, job, nodes=2, partition="main", time="1:00:00")
    assert {"--ntasks=1", "--cpus-per-task=1", "--mem-per-cpu=3072M", "--partition=main"} <= {
        *servers
    }
    assert {"--ntasks=2", "--nodes=2", "--cpus-per-task=2", "--partition=main"} <= {*workers}
    assert not any(word.startswith("--mem") for word in workers)
    assert tasks == [((0,), ()), ((), (0,)), ((), (1,))]


def test_shared_nodes_run_blocks_of_both_roles(tmp_path):
    job = make_job(workers=3, servers=2, cpus=2)
    (asked,), tasks = rendered(tmp_path, job, share_nodes=True, nodes=2)
    assert {"--nodes=2", "--ntasks=2", "--cpus-per-task=5"} <= {*asked}
    assert tasks == [((0,), (0, 1)), ((1,), (2,))]


def test_more_nodes_than_processes_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="3 nodes are more than the job has processes for"):
        rendered(tmp_path, make_job(workers=2, servers=1), share_nodes=True, nodes=3)


def test_further_options_reach_sbatch(tmp_path):
    (asked,), _ = rendered(tmp_path, make_job(), arguments="--exclusive --mail-type=END")
    assert asked[-2:] == ["--exclusive", "--mail-type=END"]
