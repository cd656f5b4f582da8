"""Run the processes of a job under a supervisor, and tell the user how it goes."""

import dataclasses
import logging
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from fleetrec.cli.cluster_view import ClusterView
from fleetrec.cli.logs import console_logging
from fleetrec.cli.signals import StopRequest
from fleetrec.core.env import TOKEN, read_token
from fleetrec.core.errors import ConfigError
from fleetrec.launch.job import JobSpec, Part, RoleSpec
from fleetrec.launch.local import Outcome, Policy, Supervisor
from fleetrec.launch.machines import Machines
from fleetrec.launch.ports import reserved_endpoints

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """A program of the user's own, the same for servers and workers."""

    command: tuple[str, ...]
    num_workers: int
    machines: Machines

    def spec(self, endpoints: tuple[str, ...], env: dict[str, str]) -> JobSpec:
        """Return the job once its ports are known."""
        return JobSpec(
            servers=RoleSpec(
                name="server",
                replicas=len(endpoints),
                command=self.command,
                log_name="serverlog",
                env=env,
            ),
            workers=RoleSpec(
                name="worker",
                replicas=self.num_workers,
                command=self.command,
                log_name="workerlog",
                env=env,
            ),
            endpoints=endpoints,
        )


def launch(scripted: Scripted, *, log_dir: Path, max_restarts: int, print_config: bool) -> None:
    """Run a program as servers and workers; exits with the status of what failed."""
    part = scripted.machines.part
    env = {TOKEN: job_token(part)}
    with (
        console_logging(),
        reserved_endpoints(scripted.machines.endpoints, own=part.servers) as endpoints,
        StopRequest() as stop,
        ClusterView() as view,
    ):
        job = scripted.spec(endpoints, env)
        if print_config:
            _print_config(job, part, log_dir)
        outcome = Supervisor(
            job,
            part,
            log_dir=log_dir,
            policy=Policy(max_restarts=max_restarts),
            should_stop=stop.is_requested,
            watch=view,
        ).run()
    exit_with(outcome, log_dir)


def job_token(part: Part) -> str:
    """Return the secret of a job: the user's own, or a new one where no other machine needs it."""
    token = read_token()
    if token is None and not part.is_whole:
        raise ConfigError(
            [f"{TOKEN}: servers on several machines need a secret; set it to the same text on each"]
        )
    return token or secrets.token_hex(16)


def exit_with(outcome: Outcome, log_dir: Path) -> None:
    """Say how a job ended; a failure is shown with the end of its log, and ends this process."""
    if outcome.status == 0:
        print(f"all workers completed; logs: {log_dir}")
        return
    if outcome.log is not None:
        print(f"--- the end of {outcome.log}", *outcome.tail, "---", sep="\n", file=sys.stderr)
        print(f"error: {outcome.failed}; logs: {log_dir}", file=sys.stderr)
    sys.exit(outcome.status)


def _print_config(job: JobSpec, part: Part, log_dir: Path) -> None:
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
