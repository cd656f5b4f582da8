"""``fleetrec run`` of a runner that is several processes, seen from their supervisor."""

import logging
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from fleetrec.cli.cluster import end_unless_well, job_of, supervise
from fleetrec.cli.follow import Follower
from fleetrec.cli.logs import run_log
from fleetrec.config.job import RunOptions
from fleetrec.core.env import has_rank, has_topology
from fleetrec.core.errors import UnavailableError
from fleetrec.launch.child import Child
from fleetrec.launch.local import Outcome, Policy
from fleetrec.launch.machines import place
from fleetrec.launch.ranks import RankJob, log_of, run_ranks
from fleetrec.train.observers import LogObserver
from fleetrec.train.report import write_report
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)


def check_cluster(run: RunOptions) -> None:
    """Refuse what servers and workers cannot do, before anything runs."""
    where = f"runner {run.name}"
    if is_collective(run):
        _check_ranks(run)
        return
    if run.cluster.fleet_mode != "ps":
        raise UnavailableError(
            f"{where}: fleet_mode {run.cluster.fleet_mode} is not available; use fleet_mode: ps, "
            "or fleet_mode: collective"
        )
    if run.device.kind == "gpu":
        raise UnavailableError(
            f"{where}: workers with servers compute on the CPU; use device: cpu and "
            "fleet_mode: ps, or fleet_mode: collective for GPUs without servers"
        )
    if run.engine == "cluster" and not has_topology():
        raise UnavailableError(
            f"{where}: class cluster cannot be submitted in this version; start the same command "
            "on each machine with TRAINING_ROLE and the other variables that docs/launching.md "
            "lists, or use class: local_cluster"
        )


def is_collective(run: RunOptions) -> bool:
    """Tell whether a run is ranks that make every step together, without servers."""
    return run.engine != "single" and run.cluster.fleet_mode == "collective"


def _check_ranks(run: RunOptions) -> None:
    if run.engine == "cluster" and not has_rank():
        raise UnavailableError(
            f"runner {run.name}: class cluster with fleet_mode collective: start the same command "
            "by torchrun on each machine, see docs/collective.md, or use class: local_cluster"
        )


def run_cluster(
    run: RunOptions, folder: RunFolder, *, command: Sequence[str], resume: bool, log_dir: Path
) -> None:
    """Run a runner as several processes on this machine, of which each runs ``command``."""
    resume = resume and run.kind == "train"
    run_id = (folder.run_id() if resume else None) or secrets.token_hex(8)
    folder.begin(run_id, fresh=not resume)
    forget_servers(folder, keep=_state_dir(run, folder) if resume else None)
    with run_log(folder.log):
        logger.info("Runner %s Begin", run.name)
        try:
            if is_collective(run):
                outcome = _ranks(run, folder, tuple(command), log_dir, keeps_logs=resume)
            else:
                outcome = _supervised(run, folder, tuple(command), log_dir)
        finally:
            write_report(folder, run)
        if outcome.was_stopped and run.kind == "train":
            option = "--resume" if run.save.rolling is None else "--continue_train"
            logger.warning("stopped; go on with the same command and %s", option)
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


def _ranks(
    run: RunOptions,
    folder: RunFolder,
    command: tuple[str, ...],
    log_dir: Path,
    *,
    keeps_logs: bool,
) -> Outcome:
    count = run.cluster.num_workers
    if not keeps_logs:
        for rank in range(count):
            log_of(log_dir, rank).unlink(missing_ok=True)
    follower = Follower(folder.metrics, LogObserver(num_phases=len(run.phases)))
    logger.info("%d ranks; their logs: %s", count, log_of(log_dir, 0).with_suffix(".N"))
    return run_ranks(
        RankJob(command=command, count=count, log_dir=log_dir),
        policy=Policy(max_restarts=run.cluster.max_restarts),
        watch=follower.look,
    )
