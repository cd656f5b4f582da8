"""The script that a job is for sbatch, and the tasks that its steps run."""

import dataclasses
import math
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetrec.core.errors import ConfigError
from fleetrec.core.partition import contiguous_block
from fleetrec.launch.job_spec import SERVER, JobSpec, RoleSpec
from fleetrec.launch.placement import LocalReplicas
from fleetrec.launch.script import ADDRESS, agent_command, python_on_nodes
from fleetrec.launch.stored_job import LOG_FOLDER

if TYPE_CHECKING:
    from fleetrec.config.cluster.slurm import SlurmOptions

OUTPUT = f"{LOG_FOLDER}/slurm-%j.out"
EXIT = f"{LOG_FOLDER}/slurm-%j.exit"
MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Tasks with the same resources; each is an agent that runs some replicas of the job."""

    name: str
    job: JobSpec
    tasks: tuple[LocalReplicas, ...]
    num_nodes: int | None
    first: int = 0  # number of its first task in the job

    def resources(self) -> list[str]:
        """Return the options of sbatch and srun for what the largest task needs."""
        counted = [
            (role.resources, max(len(_replicas(task, role)) for task in self.tasks))
            for role in self.job.roles
        ]
        cpus = sum((needs.cpus or 1) * count for needs, count in counted)
        memory = sum((needs.memory_bytes or 0) * count for needs, count in counted)
        gpus = sum(needs.gpus * count for needs, count in counted)
        words = []
        has_cpus = any(count and needs.cpus is not None for needs, count in counted)
        if has_cpus:
            words.append(f"--cpus-per-task={cpus}")
        if memory:  # there is no option for the memory of a task
            per_cpu = math.ceil(memory / (cpus if has_cpus else 1) / MEBIBYTE)
            words.append(f"--mem-per-cpu={per_cpu}M")
        if gpus:
            words.append(f"--gpus-per-task={gpus}")
        return words


def slurm_steps(job: JobSpec, options: "SlurmOptions") -> list[Step]:
    """Return the steps of a job: one for all replicas, or one for servers and one for workers."""
    num_workers = job.workers.replicas
    if job.servers is None:
        num_nodes = options.nodes or num_workers
        if num_workers % num_nodes:
            raise ConfigError(
                [
                    f"nodes: {num_workers} ranks cannot be divided evenly among {num_nodes} "
                    "nodes; choose another number of either"
                ]
            )
        return [_node_step("ranks", job, num_nodes)]
    num_servers = job.servers.replicas
    if options.share_nodes:
        return [_node_step("nodes", job, options.nodes or max(num_workers, num_servers))]
    servers = tuple(_task(servers=[index]) for index in range(num_servers))
    workers = tuple(_task(workers=[index]) for index in range(num_workers))
    return [
        Step(name="servers", job=job, tasks=servers, num_nodes=options.server_nodes),
        Step(name="workers", job=job, tasks=workers, num_nodes=options.nodes, first=num_servers),
    ]


def slurm_script(job: JobSpec, options: "SlurmOptions") -> list[str]:
    """Return the lines of the script, without the first, which names the shell."""
    steps = slurm_steps(job, options)
    lines: list[str] = []
    for step in steps:
        lines += ["#SBATCH hetjob"] if lines else []
        lines += [f"#SBATCH {word}" for word in _directives(job, step, options)]
    lines += [
        "",
        "set -uo pipefail",
        "job_id=$SLURM_JOB_ID",
        f"trap 'echo $? >\"{EXIT.replace('%j', '$job_id')}\"' EXIT",
        "set -e",
        "# A job that Slurm has requeued continues, with its logs.",
        '[ -n "${SLURM_RESTART_COUNT:-}" ] || rm -f logs/server.* logs/worker.*',
        f"python={shlex.quote(python_on_nodes(job))}",
        "",
        "# Every task is an agent. First, all of them say at which address their node is.",
        "addresses=",
    ]
    interface = () if options.interface is None else ("--interface", options.interface)
    address = shlex.join([*ADDRESS, *interface])
    agent = agent_command(port=options.port, restarts=options.max_restarts)
    for group, step in enumerate(steps):
        group_option = [f"--het-group={group}"] if len(steps) > 1 else []
        srun = ["srun", *group_option, "--kill-on-bad-exit=1", *step.resources()]
        lines += [
            f"{step.name}() {{",
            f'  {shlex.join(srun)} "$python" "$@" --first-task {step.first}',
            "}",
            f"addresses+=$({step.name} {address})$'\\n'",
        ]
    return [
        *lines,
        "",
        *(f"{step.name} {agent} &" for step in steps),
        "# The first step that fails ends the others. Servers end when all workers have finished.",
        f"for step in {' '.join(step.name for step in steps)}; do",
        "  wait -n || { status=$?; kill $(jobs -p) 2>/dev/null || true; wait; exit $status; }",
        "done",
    ]


def _directives(job: JobSpec, step: Step, options: "SlurmOptions") -> list[str]:
    named = {
        "--job-name": re.sub(r"[^\w.-]", "_", job.name),
        "--output": OUTPUT,
        "--partition": options.partition,
        "--account": options.account,
        "--qos": options.qos,
        "--reservation": options.reservation,
        "--constraint": options.constraint,
        "--time": options.time,
        "--nodes": step.num_nodes,
        "--ntasks": len(step.tasks),
    }
    given = [f"{name}={value}" for name, value in named.items() if value is not None]
    spread = ["--ntasks-per-node=1"] if step.num_nodes == len(step.tasks) else []
    return [*given, *spread, *step.resources(), *options.arguments]


def _node_step(name: str, job: JobSpec, num_nodes: int) -> Step:
    """Return one task for each node, with blocks of the servers and of the workers."""
    num_servers = job.servers.replicas if job.servers else 0
    tasks = tuple(
        _task(
            servers=contiguous_block(num_servers, node, num_nodes),
            workers=contiguous_block(job.workers.replicas, node, num_nodes),
        )
        for node in range(num_nodes)
    )
    if any(not task.servers and not task.workers for task in tasks):
        raise ConfigError([f"nodes: {num_nodes} nodes are more than the job has processes for"])
    return Step(name=name, job=job, tasks=tasks, num_nodes=num_nodes)


def _replicas(task: LocalReplicas, role: RoleSpec) -> tuple[int, ...]:
    return task.servers if role.name == SERVER else task.workers


def _task(*, servers: Sequence[int] = (), workers: Sequence[int] = ()) -> LocalReplicas:
    return LocalReplicas(servers=tuple(servers), workers=tuple(workers), is_only_machine=False)
