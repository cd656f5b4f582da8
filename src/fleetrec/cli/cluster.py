"""Run the processes of a job on this machine, and show how it goes."""

import contextlib
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from fleetrec.cli.cluster_view import ClusterView
from fleetrec.cli.signals import StopRequest
from fleetrec.core.env import STATE, TOKEN, read_token
from fleetrec.core.errors import ConfigError
from fleetrec.launch.child import Child
from fleetrec.launch.job_spec import RANK_MACRO, SERVER, WORKER, JobSpec, Outcome, RoleSpec
from fleetrec.launch.local import LocalJob, LocalLauncher, run_job
from fleetrec.launch.placement import LocalReplicas, Placement

Watcher = Callable[[Sequence[Child]], None]


def supervise(
    launcher: LocalLauncher,
    job: JobSpec,
    log_dir: Path,
    *,
    watch: Watcher = lambda _: None,
    on_start: Callable[[LocalJob], None] = lambda _: None,
    form: Literal["auto", "lines", "none"] = "auto",
) -> Outcome:
    """Run this machine's replicas of a job, with a view of them; returns how it ended."""
    with StopRequest() as stop, contextlib.ExitStack() as stack:
        view = (lambda _: None) if form == "none" else stack.enter_context(ClusterView(form=form))

        def watch_and_show(children: Sequence[Child]) -> None:
            watch(children)
            view(children)

        with contextlib.closing(launcher.start(job, log_dir)) as running:
            on_start(running)
            return run_job(running, should_stop=stop.is_requested, watch=watch_and_show)


def server_job(
    command: tuple[str, ...], placement: Placement, *, state_dir: Path, log_suffix: str = ""
) -> JobSpec:
    """Return a job of servers and workers, which all run one command."""
    state = str(state_dir.resolve() / RANK_MACRO)
    return JobSpec(
        name="servers and workers",
        env={TOKEN: job_token(placement.local)},
        roles=(
            RoleSpec(
                name=SERVER,
                replicas=placement.num_servers,
                command=command,
                env={STATE: state},
                num_ports=1,
                log_name=f"{SERVER}{log_suffix}",
            ),
            RoleSpec(
                name=WORKER,
                replicas=placement.num_workers,
                command=command,
                log_name=f"{WORKER}{log_suffix}",
            ),
        ),
    )


def rank_job(command: tuple[str, ...], *, num_ranks: int) -> JobSpec:
    """Return a job of ranks: if one dies, all start again."""
    ranks = RoleSpec(name=WORKER, replicas=num_ranks, command=command, num_ports=1, restart="all")
    return JobSpec(name="ranks", roles=(ranks,))


def job_token(local: LocalReplicas) -> str:
    """Return the secret of a job: the user's own, or a new one where no other machine needs it."""
    token = read_token()
    if token is None and not local.is_only_machine:
        raise ConfigError(
            [f"{TOKEN}: servers on several machines need a secret; set it to the same text on each"]
        )
    return token or secrets.token_hex(16)


def exit_on_failure(outcome: Outcome, log_dir: Path) -> None:
    """Exit with the status of a job that failed, after the end of the log that says why."""
    if outcome.status == 0:
        return
    if outcome.log is not None:
        print(f"--- the end of {outcome.log}", *outcome.tail, "---", sep="\n", file=sys.stderr)
        print(f"error: {outcome.failed}; logs: {log_dir}", file=sys.stderr)
    sys.exit(outcome.status)


def print_config(
    job: JobSpec, endpoints: Sequence[str], local: LocalReplicas, log_dir: Path
) -> None:
    """Print what runs where; not the secret."""
    rows = {
        "servers": ", ".join(endpoints),
        "workers": str(job.workers.replicas),
        "on this machine": f"servers {_numbers(local.servers)}, workers {_numbers(local.workers)}",
        "command": " ".join(job.workers.command),
        "logs": str(log_dir),
    }
    for name, value in rows.items():
        print(f"{name + ':':<17}{value}")


def _numbers(indexes: Sequence[int]) -> str:
    return ", ".join(map(str, indexes)) or "none"
