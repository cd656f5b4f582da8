"""``fleetrec run``."""

import logging
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fleetrec._native import keep_freed_memory
from fleetrec.cli.logs import console_logging, run_log
from fleetrec.cli.progress import ProgressObserver
from fleetrec.cli.run_cluster import check_cluster, is_collective, run_cluster
from fleetrec.cli.signals import StopRequest
from fleetrec.config.job import Job, RunOptions
from fleetrec.core.env import has_rank, has_topology, read_topology
from fleetrec.core.errors import ConfigError
from fleetrec.core.exit import exit_now
from fleetrec.parallel.device import resolve_device
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.context import RunContext, StoppedError
from fleetrec.train.events import Observer, Observers
from fleetrec.train.observers import JsonObserver, LogObserver
from fleetrec.train.report import write_report
from fleetrec.train.run import Evaluation, Training
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)


def run_job(
    job: Job,
    *,
    backend: Path | None,
    resume: bool,
    log_dir: Path,
    arguments: Sequence[str] = (),
) -> None:
    """Run every runner of ``mode``; the first failure ends it.

    ``arguments`` of the command line say which job it is, for processes that this one starts.
    """
    if backend is not None and not backend.is_file():
        raise ConfigError([f"-b {backend}: no such file"])
    check_engines(job)
    keep_freed_memory()
    with console_logging():
        for notice in job.notices:
            logger.warning("%s", notice)
        if backend is not None:
            logger.warning("%s is not used: this version submits no cluster jobs", backend)
        for run in job.runs:
            folder = RunFolder(path=log_dir / f"{job.workspace.name}.{run.name}")
            if run.engine == "single":
                _run(run, folder, resume=resume)
            elif is_collective(run) and has_rank():
                watchers = (LogObserver(num_phases=len(run.phases)),)
                from fleetrec.cli.rank import be_rank

                be_rank(run, folder, resume=resume, log_dir=log_dir, watchers=watchers)
            elif has_topology():
                watchers = (LogObserver(num_phases=1),)
                from fleetrec.cli.take_part import take_part

                take_part(run, folder, read_topology(), resume=resume, watchers=watchers)
            else:
                told = (*arguments, "--log-dir", str(log_dir), "-o", f"mode={run.name}")
                again = ("--resume",) if resume and run.kind == "train" else ()
                command = (sys.executable, "-m", "fleetrec.run", *told, *again)
                run_cluster(run, folder, command=command, resume=resume, log_dir=log_dir)
                _say_what_is_left(run, folder)
    if has_topology():  # a supervisor waits for the end of this process
        exit_now(0)


def check_engines(job: Job) -> None:
    """Refuse what this version cannot run, before anything runs."""
    for run in job.runs:
        if run.engine != "single":
            check_cluster(run)


def _run(run: RunOptions, folder: RunFolder, *, resume: bool) -> None:
    """Run one runner and say what it left behind."""
    run_watched(run, folder, resume=resume, watchers=(LogObserver(num_phases=len(run.phases)),))


def run_watched(
    run: RunOptions, folder: RunFolder, *, resume: bool, watchers: Sequence[Observer]
) -> None:
    """Run one runner, which others may watch, and say what it left behind."""
    is_resumed = resume and run.kind == "train"
    run_id = (folder.run_id() if is_resumed else None) or secrets.token_hex(8)
    with StopRequest() as stop, ProgressObserver(run.name) as progress:
        context = RunContext(
            clock=time.monotonic,
            run_id=run_id,
            folder=folder,
            observer=Observers(*watchers, JsonObserver(folder.metrics), progress),
            should_stop=stop.is_requested,
        )
        work = _prepare(run, context, resume=is_resumed)
        folder.begin(
            run_id, fresh=not is_resumed
        )  # only now: the last run's log is not lost before
        with run_log(folder.log):
            logger.info("Runner %s Begin", run.name)
            try:
                work()
            except StoppedError as error:
                logger.warning("%s", error)
                logger.warning("go on with the same command and %s", run.resume.flag)
                raise KeyboardInterrupt from error
            finally:
                write_report(folder, run)
            _say_what_is_left(run, folder)


def _prepare(run: RunOptions, context: RunContext, *, resume: bool) -> Callable[[], None]:
    """Open the data and build the models, so that nothing fails later that can fail now."""
    group = SoloGroup(resolve_device(run.device))
    if run.kind == "train":
        training = Training(run, group, context)
        return lambda: training.run(resume=resume)
    return Evaluation(run, group, context).run


def _say_what_is_left(run: RunOptions, folder: RunFolder) -> None:
    logger.info("Runner %s Finish", run.name)
    last = str((run.num_epochs or 1) - 1)
    for rule in run.rules:
        if rule.when == "end" and rule.do == "checkpoint" and "{pass}" in rule.path:
            logger.info("checkpoint:      %s", rule.path.replace("{pass}", last))
        if rule.when == "end" and rule.do == "inference":
            logger.info("inference model: %s", rule.path.replace("{pass}", last))
    logger.info("logs:            %s", folder.path)
    logger.info("report:          %s", folder.report)
