"""Jobs on this machine, for trying out what a cluster would get."""

import secrets
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from fleetrec.core.errors import ConfigError
from fleetrec.launch.cluster_job import STATE_FOLDER
from fleetrec.launch.detached import Detached
from fleetrec.launch.engine import Engine, JobStatus, SubmittedJob
from fleetrec.launch.job_logs import log_lines
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.local import LocalLauncher, run_job
from fleetrec.launch.log_tail import log_tail
from fleetrec.launch.placement import LocalReplicas
from fleetrec.launch.stored_job import (
    JOB_FILE,
    LOG_FOLDER,
    StoredJob,
    read_stored_job,
    write_stored_job,
)

RUNS = "local"
CANCEL_TIMEOUT_S = 90.0  # to save, and to end


class LocalEngine(Engine):
    """Runs a job as processes of this machine, in the background."""

    def __init__(self, options: object = None) -> None:
        del options  # it has none

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the job; its secrets for the owner only."""
        task = LocalReplicas(
            servers=tuple(range(job.servers.replicas if job.servers else 0)),
            workers=tuple(range(job.workers.replicas)),
            is_only_machine=True,
        )
        return write_stored_job(StoredJob(job=job, tasks=(task,)), folder)

    def submit(self, folder: Path) -> SubmittedJob:
        """Start the supervisor of the job."""
        if not (folder / JOB_FILE).is_file():
            raise ConfigError([f"{folder}: no {JOB_FILE}; this is not a job for this machine"])
        job_id = secrets.token_hex(4)
        run = _run(folder, job_id)
        run.start([sys.executable, "-m", "fleetrec.launch.local_engine"], cwd=folder)
        return SubmittedJob(job_id=job_id, follow=(f"tail -F {shlex.quote(str(run.log))}",))

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Return the state of the supervisor."""
        run = _run(folder, job_id)
        exit_status = run.exit_status()
        if exit_status is None and run.is_running():
            return JobStatus(state="running")
        if run.is_cancelled:
            return JobStatus(state="cancelled")
        if exit_status == 0:
            return JobStatus(state="succeeded")
        how = "was killed" if exit_status is None else f"exit status {exit_status}"
        return JobStatus(state="failed", detail="\n".join([how, *log_tail(run.log)]))

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Return the output of the supervisor and of all processes."""
        return log_lines(folder, _run(folder, job_id).log)

    def cancel(self, folder: Path, job_id: str) -> None:
        """Let the workers save themselves, and wait until all processes have ended."""
        _run(folder, job_id).cancel(timeout_s=CANCEL_TIMEOUT_S)


def supervise(folder: Path) -> int:
    """Run the job of a folder to its end; returns the exit status."""
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    job = read_stored_job(folder).job
    shutil.rmtree(folder / STATE_FOLDER, ignore_errors=True)  # of an earlier submission
    running = LocalLauncher().start(job, folder / LOG_FOLDER)
    outcome = run_job(running, should_stop=lambda: stopped)
    for line in (outcome.failed, *outcome.tail):
        sys.stdout.write(f"{line}\n" if line else "")
    return outcome.status


def _run(folder: Path, job_id: str) -> Detached:
    return Detached((folder / RUNS / job_id).resolve())


if __name__ == "__main__":
    sys.exit(supervise(Path.cwd()))
