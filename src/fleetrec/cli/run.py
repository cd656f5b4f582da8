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
from fleetrec.cli.rank import be_rank
from fleetrec.cli.run_cluster import check_cluster, is_collective, run_cluster
from fleetrec.cli.signals import StopRequest
from fleetrec.cli.take_part import take_part
from fleetrec.config.job import Job, RunOptions
from fleetrec.core.env import has_rank, has_topology, read_topology
from fleetrec.core.errors import ConfigError
from fleetrec.core.leaving import leave
from fleetrec.core.storage import join
from fleetrec.train.evaluator import Evaluator
from fleetrec.train.events import Observer, Observers
from fleetrec.train.observers import JsonObserver, LogObserver
from fleetrec.train.passes import Surroundings
from fleetrec.train.report import write_report
from fleetrec.train.run_folder import RunFolder
from fleetrec.train.trainer import StoppedError, Trainer

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
                be_rank(run, folder, resume=resume, log_dir=log_dir, watchers=watchers)
            elif has_topology():
                watchers = (LogObserver(num_phases=1),)
                take_part(run, folder, read_topology(), resume=resume, watchers=watchers)
            else:
                told = (*arguments, "--log-dir", str(log_dir), "-o", f"mode={run.name}")
                again = ("--resume",) if resume and run.kind == "train" else ()
                command = (sys.executable, "-m", "fleetrec.run", *told, *again)
                run_cluster(run, folder, command=command, resume=resume, log_dir=log_dir)
                _say_what_is_left(run, folder)
    if has_topology():  # a supervisor waits for the end of this process
        leave(0)


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
        around = Surroundings(
            clock=time.monotonic,
            run_id=run_id,
            folder=folder,
            observer=Observers(*watchers, JsonObserver(folder.metrics), progress),
            should_stop=stop.is_requested,
        )
        work = _prepare(run, around, resume=is_resumed)
        folder.begin(
            run_id, fresh=not is_resumed
        )  # only now: the last run's log is not lost before
        with run_log(folder.log):
            logger.info("Runner %s Begin", run.name)
            try:
                work()
            except StoppedError as error:
                logger.warning("%s", error)
                option = "--resume" if run.save.rolling is None else "--continue_train"
                logger.warning("go on with the same command and %s", option)
                raise KeyboardInterrupt from error
            finally:
                write_report(folder, run)
            _say_what_is_left(run, folder)


def _prepare(run: RunOptions, around: Surroundings, *, resume: bool) -> Callable[[], None]:
    """Open the data and build the models, so that nothing fails later that can fail now."""
    if run.kind == "train":
        trainer = Trainer(run, around)
        return lambda: trainer.train(resume=resume)
    return Evaluator(run, around).infer


def _say_what_is_left(run: RunOptions, folder: RunFolder) -> None:
    logger.info("Runner %s Finish", run.name)
    last = str((run.num_epochs or 1) - 1)
    if run.kind == "train" and run.save.checkpoint_path:
        logger.info("checkpoint:      %s", join(run.save.checkpoint_path, last))
    if run.kind == "train" and run.save.inference_path:
        logger.info("inference model: %s", join(run.save.inference_path, last))
    logger.info("logs:            %s", folder.path)
    logger.info("report:          %s", folder.report)
