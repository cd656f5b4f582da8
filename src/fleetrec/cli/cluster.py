"""Run the processes of a job under a supervisor, and tell the user how it goes."""

import contextlib
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fleetrec.cli.cluster_view import ClusterView
from fleetrec.cli.signals import StopRequest
from fleetrec.core.env import TOKEN, read_token
from fleetrec.core.errors import ConfigError
from fleetrec.core.topology import Role
from fleetrec.launch.child import Child
from fleetrec.launch.job import JobSpec, Part, RoleSpec
from fleetrec.launch.local import Outcome, Policy, Supervisor
from fleetrec.launch.machines import Machines
from fleetrec.launch.ports import reserved_endpoints

Watcher = Callable[[Sequence[Child]], None]


def supervise(
    job: JobSpec, part: Part, *, log_dir: Path, policy: Policy, watch: Watcher = lambda _: None
) -> Outcome:
    """Run this machine's part of a job, with a view of it; returns how it ended."""
    with StopRequest() as stop, ClusterView() as view:

        def watch_and_show(children: Sequence[Child]) -> None:
            watch(children)
            view(children)

        return Supervisor(
            job,
            part,
            log_dir=log_dir,
            policy=policy,
            should_stop=stop.is_requested,
            watch=watch_and_show,
        ).run()


@contextlib.contextmanager
def job_of(
    command: tuple[str, ...], machines: Machines, *, state_dir: Path, log_suffix: str = ""
) -> Iterator[JobSpec]:
    """Give the job in which all processes run one command; its ports are ours in the block."""
    part = machines.part
    env = {TOKEN: job_token(part)}

    def role(name: Role, replicas: int) -> RoleSpec:
        log_name = f"{name}{log_suffix}"
        return RoleSpec(name=name, replicas=replicas, command=command, log_name=log_name, env=env)

    with reserved_endpoints(machines.endpoints, own=part.servers) as endpoints:
        yield JobSpec(
            servers=role("server", len(endpoints)),
            workers=role("worker", machines.num_workers),
            endpoints=endpoints,
            state_dir=state_dir,
        )


def job_token(part: Part) -> str:
    """Return the secret of a job: the user's own, or a new one where no other machine needs it."""
    token = read_token()
    if token is None and not part.is_whole:
        raise ConfigError(
            [f"{TOKEN}: servers on several machines need a secret; set it to the same text on each"]
        )
    return token or secrets.token_hex(16)


def end_unless_well(outcome: Outcome, log_dir: Path) -> None:
    """Return if a job ended well; else show the end of the log that tells why, and exit."""
    if outcome.status == 0:
        return
    if outcome.log is not None:
        print(f"--- the end of {outcome.log}", *outcome.tail, "---", sep="\n", file=sys.stderr)
        print(f"error: {outcome.failed}; logs: {log_dir}", file=sys.stderr)
    sys.exit(outcome.status)


def print_config(job: JobSpec, part: Part, log_dir: Path) -> None:
    """Print what runs where; not the secret."""
    rows = {
        "servers": ", ".join(job.endpoints),
        "workers": str(job.workers.replicas),
        "on this machine": f"servers {_numbers(part.servers)}, workers {_numbers(part.workers)}",
        "command": " ".join(job.workers.command),
        "logs": str(log_dir),
    }
    for name, value in rows.items():
        print(f"{name + ':':<17}{value}")


def _numbers(indexes: Sequence[int]) -> str:
    return ", ".join(map(str, indexes)) or "none"
