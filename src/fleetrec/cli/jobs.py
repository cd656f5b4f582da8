"""A job, from its file to its results: which runs it has, and which processes make each of them."""

import contextlib
import dataclasses
import functools
import logging
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from fleetrec.cli.cluster import rank_job, server_job
from fleetrec.cli.job import load_requested
from fleetrec.cli.logs import console_logging
from fleetrec.cli.run_cluster import Shown, run_cluster, server_state
from fleetrec.config.job import CLIPPED_IN_SYNC, Job, RunOptions, needs_whole_gradient
from fleetrec.config.load import JobRequest, probably_starts_processes, without_model_classes
from fleetrec.config.online import FollowOptions
from fleetrec.core.env import read_place
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.core.exit import exit_now
from fleetrec.core.place import Place
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.placement import assign_replicas
from fleetrec.train.run_folder import RunFolder, run_folder_of
from fleetrec.train.run_lock import run_lock

logger = logging.getLogger(__name__)

LOGS = Path("logs")

ResultT = TypeVar("ResultT")


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobStart:
    """How a job is started.

    ``command`` is that of a process which takes part in it, and ``only`` the runner that such a
    process is for. A ``quiet`` start shows neither log lines nor progress. A process that a
    launcher started exits at the end of the job, unless the job ``returns``.
    """

    command: tuple[str, ...]
    resume: bool = False
    log_dir: Path | None = None
    only: str | None = None
    notices: Sequence[str] = ()
    quiet: bool = False
    returns: bool = False

    def child_command(self, run: RunOptions) -> tuple[str, ...]:
        """Return the command of a process that takes part in one run."""
        always_resumes = run.online is not None and run.resume.layout == "days"
        is_resumed = self.resume and run.kind == "train" and not always_resumes
        resume = (run.resume.flag,) if is_resumed else ()
        return (*self.command, "--only", run.name, *resume)

    def folder(self, job: Job, run: RunOptions) -> RunFolder:
        """Return the folder of a run: that of the job, or one of its own."""
        if job.folder is not None:
            return dataclasses.replace(run_folder_of(job.folder), files=job.files)
        return RunFolder(path=(self.log_dir or LOGS) / f"{job.workspace.name}.{run.name}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run that this process has finished, and its folder."""

    options: RunOptions
    folder: RunFolder


def run_job(request: JobRequest, start: JobStart) -> list[FinishedRun]:
    """Run the runs of a job in order; the first failure ends it."""
    finished = []
    place = read_place()
    load = functools.partial(load_checked, request, place, only=start.only, resume=start.resume)
    # The supervisor of other processes needs no models: another process loads them for the checks.
    is_light = (
        _is_alone(place) and probably_starts_processes(request) and "torch" not in sys.modules
    )
    job = in_child(functools.partial(_without_models, load)) if is_light else load()
    with contextlib.nullcontext() if start.quiet else console_logging():
        if place is None or not place.is_supervised:  # else the supervisor has logged them
            for notice in (*job.notices, *start.notices):
                logger.warning("%s", notice)
        for index, run in enumerate(job.runs):
            folder = start.folder(job, run)
            finished.append(FinishedRun(options=run, folder=folder))
            _check_begun(run, place)
            with _lock_of(run, place):
                resume = start.resume or has_begun(run)  # an online run always continues
                if is_supervised_here(run, place):
                    spec = job_spec(run, folder, start.child_command(run))
                    log_dir = start.log_dir or (LOGS if job.folder is None else folder.path / LOGS)
                    shown = Shown(log_dir=log_dir, quiet=start.quiet)
                    run_cluster(run, spec, folder, shown, resume=resume)
                    continue
                own = place_in_run(run, place)
                if own is None:
                    logger.info("runner %s is one process: worker 0 runs it", run.name)
                    continue
                from fleetrec.cli.process import run_process  # loads torch: not for a supervisor

                loaded = load().runs[index] if is_light else run
                run_process(loaded, own, folder=folder, resume=resume, quiet=start.quiet)
    if not (start.returns or _is_alone(place)):
        exit_now(0)  # a launcher waits for the end of this process
    return finished


def load_checked(
    request: JobRequest, place: Place | None = None, *, only: str | None = None, resume: bool = True
) -> Job:
    """Load a job and refuse what cannot run here, before anything runs.

    Without ``resume`` the folders of new runs are checked, too. A server reads no data, and its
    node may not have any.
    """
    if place is not None and place.role == "server":
        request = dataclasses.replace(request, purpose="submit")
    job = load_requested(request)
    if only is not None:
        job = job.model_copy(update={"runs": tuple(run for run in job.runs if run.name == only)})
    if not _is_alone(place) and all(run.engine == "single" for run in job.runs):
        assert place is not None
        raise ConfigError(
            [
                f"{job.source}: its runners are one process, but {place.launcher} has started "
                f"{place.num_workers} workers; use class: cluster_train, or start one process"
            ]
        )
    for run in job.runs:
        check_run(run, place)
        if place is None and not resume:
            from fleetrec.cli.new_run import check_new_run

            check_new_run(run)
    check_devices(job.runs, place)
    return job


def check_devices(runs: Sequence[RunOptions], place: Place | None) -> None:
    """Refuse runs for GPUs that are not on this machine."""
    if all(run.device.kind == "cpu" for run in runs):
        return
    from fleetrec.parallel.device import check_gpus  # loads torch

    counts = [run.cluster.num_workers if is_supervised_here(run, place) else 1 for run in runs]
    check_gpus(list(zip(runs, counts, strict=True)))


def check_run(run: RunOptions, place: Place | None) -> None:
    """Refuse what the processes of a run cannot do, or what does not fit how they were started."""
    where = f"runner {run.name}"
    if run.engine == "cluster" and place is None:
        raise UnavailableError(
            f"{where}: class cluster is for the nodes of a cluster; submit the job with -b "
            "backend.yaml, or start the same command by torchrun on each machine (fleet_mode: "
            "collective) or with TRAINING_ROLE and the other variables that docs/launching.md "
            "lists, or use class: local_cluster"
        )
    if not is_collective(run) and run.engine != "single":
        _check_servers(run, where)
    if place is not None and run.engine != "single" and not _is_alone(place):
        _check_place(run, place, where)


def _check_servers(run: RunOptions, where: str) -> None:
    if run.cluster.fleet_mode != "ps":
        raise UnavailableError(
            f"{where}: fleet_mode {run.cluster.fleet_mode} is not available; use fleet_mode: ps"
        )
    if run.device.kind == "gpu":
        raise UnavailableError(
            f"{where}: workers of parameter servers compute on the CPU; use device: cpu and "
            "fleet_mode: ps, or fleet_mode: collective"
        )
    for phase in run.phases if run.kind == "train" else ():
        if needs_whole_gradient(phase.update, run.cluster, run.cluster.num_workers):
            raise ConfigError([f"{where}: phase {phase.name}: {CLIPPED_IN_SYNC}"])


def _check_place(run: RunOptions, place: Place, where: str) -> None:
    if is_collective(run) and place.server_endpoints:
        raise ConfigError(
            [
                f"{where}: trains by ranks without servers, but {place.launcher} has started "
                f"{place.num_servers} servers; start the ranks by torchrun"
            ]
        )
    if not is_collective(run) and not place.server_endpoints:
        raise ConfigError(
            [
                f"{where}: trains with parameter servers, but {place.launcher} has started "
                f"{place.num_workers} processes without any; use fleet_mode: collective (in a "
                "pipeline: another train_distribute), or start servers"
            ]
        )


def is_collective(run: RunOptions) -> bool:
    """Return whether the workers of a run are ranks that make every step together."""
    return run.cluster.fleet_mode == "collective"


def has_begun(run: RunOptions) -> bool:
    """Return whether an online run has begun a pass before; it continues there."""
    if run.online is None:
        return False
    from fleetrec.train.pass_log import PassLog  # loads numpy: not for a supervisor of other runs

    return PassLog(run.online.save_path).has_any()


def _check_begun(run: RunOptions, place: Place | None) -> None:
    """Refuse options of an online run with which its passes would mean other data."""
    online = run.online
    if online is None or not isinstance(online.follow, FollowOptions) or _is_child(place):
        return
    from fleetrec.train.pass_check import check_passes

    check_passes(online.follow, save_path=online.save_path)


def _lock_of(run: RunOptions, place: Place | None) -> contextlib.AbstractContextManager[None]:
    """Return the lock of an online run, for the process that owns the run."""
    is_owner = place is None or (place.role == "worker" and place.rank == 0)
    if run.online is None or not is_owner or _is_child(place):
        return contextlib.nullcontext()
    return run_lock(run.online.save_path)


def _is_child(place: Place | None) -> bool:
    """Return whether the process that supervises this one has made the checks and has the lock."""
    return place is not None and place.is_supervised


def is_supervised_here(run: RunOptions, place: Place | None) -> bool:
    """Return whether this process starts those of a run: nothing else has started several."""
    return run.engine == "local_cluster" and _is_alone(place)


def place_in_run(run: RunOptions, place: Place | None) -> Place | None:
    """Return the place of this process in a run; None if it has no part in it.

    A run of one process is run by worker 0 of a job of several processes.
    """
    if place is None:
        return Place()
    if run.engine != "single":
        return place
    return Place() if place.role == "worker" and place.rank == 0 else None


def job_spec(run: RunOptions, folder: RunFolder, command: tuple[str, ...]) -> JobSpec:
    """Return the processes of a run, which all run ``command``."""
    options = run.cluster
    if is_collective(run):
        return rank_job(command, num_ranks=options.num_workers)
    placement = assign_replicas(num_workers=options.num_workers, num_servers=options.num_servers)
    return server_job(command, placement, state_dir=server_state(run, folder))


def _is_alone(place: Place | None) -> bool:
    """Return whether nothing but this process was started: a launcher may start just one."""
    return place is None or (place.is_only_process and not place.is_supervised)


def _without_models(load: Callable[[], Job]) -> Job:
    return without_model_classes(load())


def in_child(function: Callable[[], ResultT]) -> ResultT:
    """Return the result of a function that a forked process calls.

    What the function imports, and the memory that it takes, is gone with that process.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("fork")) as pool:
        return pool.submit(function).result()
