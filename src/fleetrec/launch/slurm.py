"""Submit jobs to Slurm by sbatch."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.launch.engine import Engine, JobState, JobStatus, SubmittedJob
from fleetrec.launch.job_logs import log_lines
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.log_tail import log_tail
from fleetrec.launch.script import write_script
from fleetrec.launch.slurm_script import EXIT, OUTPUT, slurm_script, slurm_steps
from fleetrec.launch.stored_job import LOG_FOLDER, StoredJob, write_stored_job

if TYPE_CHECKING:
    from fleetrec.config.cluster.slurm import SlurmOptions

SCRIPT = "sbatch.sh"
TIMEOUT_S = 60.0

PENDING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING", "SUSPENDED", "STOPPED")


class SlurmEngine(Engine):
    """Starts an agent for each server and each worker, or one on each node for its ranks.

    A job with servers is heterogeneous: servers and workers have nodes of their own resources.
    The job folder must be at the same path on all nodes.
    """

    def __init__(self, options: "SlurmOptions") -> None:
        self._options = options

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the job and the script for sbatch."""
        steps = slurm_steps(job, self._options)
        tasks = tuple(task for step in steps for task in step.tasks)
        paths = write_stored_job(StoredJob(job=job, tasks=tasks), folder)
        (folder / LOG_FOLDER).mkdir(exist_ok=True)  # sbatch does not make it
        return [*paths, write_script(folder / SCRIPT, slurm_script(job, self._options))]

    def submit(self, folder: Path) -> SubmittedJob:
        """Call sbatch in the folder."""
        if not (folder / SCRIPT).is_file():
            raise ConfigError([f"{folder}: no {SCRIPT}; this is not a job for Slurm"])
        done = _call("sbatch", "--parsable", SCRIPT, cwd=folder)
        if done.returncode:
            raise UnavailableError(f"sbatch: {done.stderr.strip() or done.stdout.strip()}")
        job_id = done.stdout.strip().splitlines()[-1].partition(";")[0]
        output = shlex.quote(str(_path(folder, OUTPUT, job_id)))
        return SubmittedJob(job_id=job_id, follow=(f"squeue -j {job_id}", f"tail -F {output}"))

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Ask squeue, then scontrol and sacct, which know jobs that have ended for a while."""
        queries = (
            (("squeue", "-h", "-j", job_id, "-o", "%T %r"), r"^(\w+) ?(.*)$"),
            (("scontrol", "-o", "show", "job", job_id), r"\bJobState=(\w+) Reason=(\S+)"),
            (
                ("sacct", "-n", "-X", "-P", "-j", job_id, "-o", "State,ExitCode"),
                r"^(\w+)[^|]*\|(.*)$",
            ),
        )
        for command, pattern in queries:
            if shutil.which(command[0]) is None:
                continue
            found = re.findall(pattern, _call(*command).stdout, re.MULTILINE)
            if found:
                return self._status(folder, job_id, found)
        exit_status = self._exit_status(folder, job_id)
        if exit_status is not None:
            state: JobState = "failed" if exit_status else "succeeded"
            return JobStatus(state=state, detail=f"exit status {exit_status}")
        if shutil.which("squeue") is None:
            raise UnavailableError("squeue: not found; ask on a host that has Slurm's commands")
        return JobStatus(state="unknown", detail=f"Slurm does not know job {job_id} any more")

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Return the output of the script and of all processes."""
        return log_lines(folder, _path(folder, OUTPUT, job_id))

    def cancel(self, folder: Path, job_id: str) -> None:  # noqa: ARG002 (Slurm knows the job)
        """Call scancel; Slurm then ends the processes."""
        done = _call("scancel", job_id)
        if done.returncode and "already completing or completed" not in done.stderr:
            raise UnavailableError(f"scancel: {done.stderr.strip()}")

    def _status(self, folder: Path, job_id: str, found: Sequence[tuple[str, str]]) -> JobStatus:
        """Return the state of a job from those of its components; the first has the script."""
        for state, _ in found:
            if state in RUNNING:
                return JobStatus(state="running", detail=state)
        state, reason = found[0]
        words = f"{state} ({reason})" if reason not in ("", "None") else state
        if state in PENDING:
            return JobStatus(state="pending", detail=words)
        if state == "COMPLETED":
            return JobStatus(state="succeeded", detail=state)
        if state == "CANCELLED":
            return JobStatus(state="cancelled", detail=state)
        output = _path(folder, OUTPUT, job_id)
        lines = log_tail(output) if output.is_file() else []
        errors = [line for line in lines if line.startswith(("error: ", "slurmstepd: error: "))]
        return JobStatus(state="failed", detail="; ".join([words, *errors[-1:]]))

    def _exit_status(self, folder: Path, job_id: str) -> int | None:
        path = _path(folder, EXIT, job_id)
        return int(path.read_text()) if path.is_file() else None


def _path(folder: Path, pattern: str, job_id: str) -> Path:
    return (folder / pattern.replace("%j", job_id)).resolve()


def _call(*command: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    if shutil.which(command[0]) is None:
        raise UnavailableError(
            f"{command[0]}: not found; install Slurm's commands, or submit on a host with them"
        )
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
