"""A run of several processes on this machine, in the process that supervises them."""

import dataclasses
import logging
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fleetrec.cli.cluster import exit_on_failure, supervise
from fleetrec.cli.logs import run_log
from fleetrec.cli.metrics_tail import MetricsTail
from fleetrec.cli.observers import OutputsObserver, how_to_continue, log_finish, log_observer
from fleetrec.config.job import RunOptions
from fleetrec.launch.child import Child
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.local import LocalLauncher
from fleetrec.launch.supervisor import Policy
from fleetrec.train.events import Observers
from fleetrec.train.report import write_report
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
    """Where the logs of the processes go, and whether the terminal shows them."""

    log_dir: Path
    quiet: bool = False


def run_cluster(
    run: RunOptions, job: JobSpec, folder: RunFolder, shown: Shown, *, resume: bool
) -> None:
    """Start the processes of a run on this machine, and wait until they have finished."""
    resume = resume and run.kind == "train"
    run_id = (folder.run_id() if resume else None) or secrets.token_hex(8)
    folder.begin(run_id, fresh=not resume, options=run.to_plain())
    delete_server_state(folder, keep=server_state(run, folder) if resume else None)
    launcher = LocalLauncher(
        policy=Policy(max_restarts=run.cluster.max_restarts), prepares_run=True, keep_logs=resume
    )
    outputs = OutputsObserver()
    tail = MetricsTail(folder.metrics, Observers(log_observer(run), outputs))

    def watch(_: Sequence[Child]) -> None:
        tail.poll()

    with run_log(folder.log):
        logger.info("Runner %s Begin", run.name)
        logger.info("%s; logs: %s", _processes(job), shown.log_dir)
        try:
            form: Literal["auto", "none"] = "none" if shown.quiet else "auto"
            outcome = supervise(launcher, job, shown.log_dir, watch=watch, form=form)
        finally:
            write_report(folder)
        if outcome.was_stopped and run.kind == "train":
            logger.warning("stopped; %s", how_to_continue(run))
        exit_on_failure(outcome, shown.log_dir)
        log_finish(run, folder, outputs)
    delete_server_state(folder, keep=None)


def server_state(run: RunOptions, folder: RunFolder) -> Path:
    """Return where servers keep their state: that of a job of other numbers is of no use."""
    options = run.cluster
    return folder.state_of(num_workers=options.num_workers, num_servers=options.num_servers)


def delete_server_state(folder: RunFolder, *, keep: Path | None) -> None:
    """Delete the durable state of servers, but for that of the job which is resumed."""
    for path in folder.servers.glob("*"):
        if path != keep:
            shutil.rmtree(path)


def _processes(job: JobSpec) -> str:
    if job.servers is None:
        return f"{job.workers.replicas} ranks"
    return f"{job.servers.replicas} servers, {job.workers.replicas} workers"
