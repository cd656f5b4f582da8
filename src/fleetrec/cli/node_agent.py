"""Runs one node's part of a submitted job; mpirun or srun starts it once for each task.

Servers and workers are children of the agent, which restarts those that are killed. Ranks are
those of torchrun, which restarts all of them together.
"""

import argparse
import contextlib
import dataclasses
import os
import shutil
import sys
from pathlib import Path

from fleetrec.cli.cluster import exit_on_failure, supervise
from fleetrec.cli.logs import console_logging
from fleetrec.core.env import STATE, environment_with, read_task_number
from fleetrec.core.errors import FleetRecError
from fleetrec.core.launchers.values import LOOPBACK, job_port
from fleetrec.launch.job_spec import RANK_MACRO, JobSpec
from fleetrec.launch.local import LocalLauncher, num_threads
from fleetrec.launch.node_address import interface_of_address, read_addresses
from fleetrec.launch.placement import LocalReplicas, Placement
from fleetrec.launch.stored_job import LOG_FOLDER, StoredJob, read_stored_job
from fleetrec.launch.supervisor import Policy

STATES = "servers"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The task of an agent, in the job that is in the current folder."""

    stored: StoredJob
    task: int
    addresses: tuple[str, ...]  # of all tasks
    job_id: str
    port: int
    max_restarts: int

    @property
    def replicas(self) -> LocalReplicas:
        """What this agent runs."""
        return self.stored.tasks[self.task]


def run_servers_and_workers(node: Node) -> None:
    """Run the servers and workers of a task to their end; exits if they fail."""
    job = _with_state(node.stored.job, node.job_id)
    endpoints = tuple(
        f"{address}:{node.port + server}"
        for server, address in sorted(
            (server, address)
            for task, address in zip(node.stored.tasks, node.addresses, strict=True)
            for server in task.servers
        )
    )
    placement = Placement(
        num_workers=job.workers.replicas, endpoints=endpoints, local=node.replicas
    )
    launcher = LocalLauncher(
        policy=Policy(max_restarts=node.max_restarts), placement=placement, keep_logs=True
    )
    log_dir = Path(LOG_FOLDER)
    # Lines: mpirun gives its processes a terminal, although its own output goes to a file.
    outcome = supervise(launcher, job, log_dir, form="lines")
    exit_on_failure(outcome, log_dir)
    states = _states(node.job_id)
    for server in node.replicas.servers:
        shutil.rmtree(states / str(server), ignore_errors=True)
    with contextlib.suppress(OSError):  # those of other nodes are still there
        states.rmdir()


def exec_torchrun(node: Node) -> None:
    """Become torchrun, which starts the ranks of this task."""
    num_ranks = len(node.replicas.workers)
    own = node.addresses[node.task]
    command = [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", str(len(node.addresses)), "--nproc-per-node", str(num_ranks)),
        *("--rdzv-backend", "c10d", "--rdzv-id", node.job_id),
        *("--rdzv-endpoint", f"{node.addresses[0]}:{node.port}"),
        *("--rdzv-conf", f"is_host={int(node.task == 0)}", "--local-addr", own),
        *("--max-restarts", str(node.max_restarts)),
        *("--no-python", sys.executable, "-m", "fleetrec.launch.rank_process"),
    ]
    threads = node.stored.job.workers.resources.cpus or num_threads(num_ranks)
    unless_set = {
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    interface = interface_of_address(own)
    if interface is not None:
        unless_set["GLOO_SOCKET_IFNAME"] = interface
        if own != LOOPBACK:
            unless_set["NCCL_SOCKET_IFNAME"] = interface
    sys.stdout.flush()
    os.execve(sys.executable, command, environment_with({}, unless_set=unless_set))


def _with_state(job: JobSpec, job_id: str) -> JobSpec:
    """Return the job with a folder for the state of each server.

    A relative one is replaced: servers of this job must not continue with the state of another one
    that was submitted from the same folder.
    """
    assert job.servers is not None
    if Path(job.servers.env.get(STATE, "")).is_absolute():
        return job
    state = str(_states(job_id).resolve() / RANK_MACRO)
    servers = dataclasses.replace(job.servers, env={**job.servers.env, STATE: state})
    return dataclasses.replace(job, roles=(servers, job.workers))


def _states(job_id: str) -> Path:
    return Path(STATES) / job_id


def _read_node() -> Node:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--job-id", required=True, help="the same for all nodes")
    parser.add_argument("--addresses", required=True, help="what node_address printed on all")
    parser.add_argument("--port", type=int, help="of the first server, or of the rendezvous")
    parser.add_argument("--max-restarts", type=int, default=3)
    parser.add_argument("--first-task", type=int, default=0)
    given = parser.parse_args()
    stored = read_stored_job(Path())
    return Node(
        stored=stored,
        task=given.first_task + read_task_number(),
        addresses=tuple(read_addresses(given.addresses, num_tasks=len(stored.tasks))),
        job_id=given.job_id,
        port=given.port or job_port(given.job_id),
        max_restarts=given.max_restarts,
    )


def main() -> None:
    """Run this node's part of the job in the current folder."""
    try:
        with console_logging():
            node = _read_node()
            if node.stored.job.servers is None:
                exec_torchrun(node)
            run_servers_and_workers(node)
    except FleetRecError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
