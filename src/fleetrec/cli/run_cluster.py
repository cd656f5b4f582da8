"""``fleetrec run`` of a runner that is several processes, seen from their supervisor."""

import logging
import secrets
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from fleetrec.cli.cluster import end_unless_well, job_of, supervise
from fleetrec.cli.follow import Follower
from fleetrec.cli.logs import run_log
from fleetrec.config.job import RunOptions
from fleetrec.core.env import has_topology
from fleetrec.core.errors import UnavailableError
from fleetrec.launch.child import Child
from fleetrec.launch.local import Outcome, Policy
from fleetrec.launch.machines import place
from fleetrec.train.observers import LogObserver
from fleetrec.train.report import write_report
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)


def check_cluster(run: RunOptions) -> None:
    """Refuse what servers and workers cannot do, before anything runs."""
    where = f"runner {run.name}"
    if run.device.kind == "gpu" or run.cluster.fleet_mode != "ps":
        raise UnavailableError(
            f"{where}: several processes without servers (device: gpu, or fleet_mode other than "
            "ps) are not available in this version; use device: cpu and fleet_mode: ps"
        )
    if run.engine == "cluster" and not has_topology():
        raise UnavailableError(
            f"{where}: class cluster cannot be submitted in this version; start the same command "
            "on each machine with TRAINING_ROLE and the other variables that docs/launching.md "
            "lists, or use class: local_cluster"
        )


def run_cluster(
    run: RunOptions, folder: RunFolder, *, arguments: Sequence[str], resume: bool, log_dir: Path
) -> None:
    """Run a runner as servers and workers on this machine.

    ``arguments`` are those of the command line, with which every process is started.
    """
    run_id = (folder.run_id() if resume else None) or secrets.token_hex(8)
    folder.begin(run_id, fresh=not resume)
    forget_servers(folder, keep=_state_dir(run, folder) if resume else None)
    with run_log(folder.log):
        logger.info("Runner %s Begin", run.name)
        try:
            outcome = _supervised(run, folder, _command(run, arguments, resume=resume), log_dir)
        finally:
            write_report(folder, run)
        if outcome.was_stopped:
            logger.warning("stopped; go on with the same command and --resume")
        end_unless_well(outcome, log_dir)
    forget_servers(folder, keep=None)


def forget_servers(folder: RunFolder, *, keep: Path | None) -> None:
    """Remove what servers kept, but for those of a job of the same shape that shall go on."""
    for path in folder.servers.glob("*"):
        if path != keep:
            shutil.rmtree(path)


def _state_dir(run: RunOptions, folder: RunFolder) -> Path:
    options = run.cluster
    return folder.state_of(num_workers=options.num_workers, num_servers=options.num_servers)


def _command(run: RunOptions, arguments: Sequence[str], *, resume: bool) -> tuple[str, ...]:
    more = ("--resume",) if resume else ()
    return (sys.executable, "-m", "fleetrec.run", *arguments, "-o", f"mode={run.name}", *more)


def _supervised(
    run: RunOptions, folder: RunFolder, command: tuple[str, ...], log_dir: Path
) -> Outcome:
    options = run.cluster
    machines = place(worker_num=options.num_workers, server_num=options.num_servers)
    follower = Follower(folder.metrics, LogObserver(num_phases=1))

    def watch(_: Sequence[Child]) -> None:
        follower.look()

    with job_of(command, machines, state_dir=_state_dir(run, folder)) as job:
        return supervise(
            job,
            machines.part,
            log_dir=log_dir,
            policy=Policy(max_restarts=options.max_restarts),
            watch=watch,
        )
