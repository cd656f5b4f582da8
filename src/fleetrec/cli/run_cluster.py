"""A run of several processes on this machine, in the process that supervises them."""

import logging
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from fleetrec.cli.cluster import exit_on_failure, rank_job, server_job, supervise
from fleetrec.cli.logs import run_log
from fleetrec.cli.metrics_tail import MetricsTail
from fleetrec.config.job import RunOptions
from fleetrec.core.env import read_place
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.core.place import Place
from fleetrec.launch.child import Child
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.local import LocalLauncher
from fleetrec.launch.placement import assign_replicas
from fleetrec.launch.supervisor import Policy
from fleetrec.train.observers import LogObserver
from fleetrec.train.report import write_report
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)


def check_cluster(run: RunOptions) -> None:
    """Refuse what the processes of a run cannot do, before anything runs."""
    where = f"runner {run.name}"
    place = read_place()
    if place is not None and not place.is_only_process:
        _check_place(run, place, where)
    if is_collective(run):
        _check_ranks(run, place)
        return
    if run.device.kind == "gpu" or run.cluster.fleet_mode != "ps":
        raise UnavailableError(
            f"{where}: workers with servers compute on the CPU, and fleet_mode pslib is not "
            "available; use device: cpu and fleet_mode: ps, or fleet_mode: collective"
        )
    if run.engine == "cluster" and place is None:
        raise UnavailableError(
            f"{where}: class cluster cannot be submitted in this version; start the same command "
            "on each machine with TRAINING_ROLE and the other variables that docs/launching.md "
            "lists, or use class: local_cluster"
        )


def is_collective(run: RunOptions) -> bool:
    """Return True if the processes of a run are ranks, which have no servers."""
    return run.engine != "single" and run.cluster.fleet_mode == "collective"


def place_in_run(run: RunOptions) -> Place | None:
    """Return the place of this process in a run; None if no launcher has started the run."""
    place = read_place()
    is_alone = place is not None and place.is_only_process and not place.is_supervised
    return None if is_alone and run.engine == "local_cluster" else place


def _check_place(run: RunOptions, place: Place, where: str) -> None:
    if is_collective(run) and place.server_endpoints:
        raise ConfigError(
            [
                f"{where}: its processes are ranks without servers, but {place.launcher} has "
                f"started {place.num_servers} servers; start workers only, or train with servers"
            ]
        )
    if not is_collective(run) and not place.server_endpoints:
        raise ConfigError(
            [
                f"{where}: its workers need parameter servers, but {place.launcher} has started "
                f"{place.num_workers} processes without any; start servers too, or use "
                "fleet_mode: collective"
            ]
        )


def _check_ranks(run: RunOptions, place: Place | None) -> None:
    if run.engine == "cluster" and place is None:
        raise UnavailableError(
            f"runner {run.name}: class cluster with fleet_mode collective: start the same command "
            "by torchrun on each machine, see docs/collective.md, or use class: local_cluster"
        )
    from fleetrec.parallel.device import resolve_device  # loads torch: not for a supervisor

    for index in range(run.cluster.num_workers if run.engine == "local_cluster" else 1):
        resolve_device(run.device, local_index=index)


def run_cluster(
    run: RunOptions, folder: RunFolder, *, command: Sequence[str], resume: bool, log_dir: Path
) -> None:
    """Run a runner as several processes on this machine, each of which runs ``command``."""
    resume = resume and run.kind == "train"
    run_id = (folder.run_id() if resume else None) or secrets.token_hex(8)
    folder.begin(run_id, fresh=not resume)
    delete_server_state(folder, keep=_state_dir(run, folder) if resume else None)
    launcher = LocalLauncher(
        policy=Policy(max_restarts=run.cluster.max_restarts), prepares_run=True, keep_logs=resume
    )
    job = _job(run, folder, tuple(command))
    follower = MetricsTail(folder.metrics, LogObserver(num_phases=_num_phases(run)))

    def watch(_: Sequence[Child]) -> None:
        follower.poll()

    with run_log(folder.log):
        logger.info("Runner %s Begin", run.name)
        logger.info("%s; logs: %s", _processes(job), log_dir)
        try:
            outcome = supervise(launcher, job, log_dir, watch=watch)
        finally:
            write_report(folder, run)
        if outcome.was_stopped and run.kind == "train":
            logger.warning("stopped; go on with the same command and %s", run.resume.flag)
        exit_on_failure(outcome, log_dir)
    delete_server_state(folder, keep=None)


def delete_server_state(folder: RunFolder, *, keep: Path | None) -> None:
    """Delete the durable state of servers, but for that of the job which is resumed."""
    for path in folder.servers.glob("*"):
        if path != keep:
            shutil.rmtree(path)


def _state_dir(run: RunOptions, folder: RunFolder) -> Path:
    options = run.cluster
    return folder.state_of(num_workers=options.num_workers, num_servers=options.num_servers)


def _job(run: RunOptions, folder: RunFolder, command: tuple[str, ...]) -> JobSpec:
    options = run.cluster
    if is_collective(run):
        return rank_job(command, num_ranks=options.num_workers)
    placement = assign_replicas(num_workers=options.num_workers, num_servers=options.num_servers)
    return server_job(command, placement, state_dir=_state_dir(run, folder))


def _num_phases(run: RunOptions) -> int:
    return len(run.phases) if is_collective(run) else 1  # servers hold one phase


def _processes(job: JobSpec) -> str:
    if job.servers is None:
        return f"{job.workers.replicas} ranks"
    return f"{job.servers.replicas} servers, {job.workers.replicas} workers"
