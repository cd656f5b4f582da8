"""Submit jobs to a Ray cluster, where a program starts the processes and watches them."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.launch.engine import Engine, JobState, JobStatus, SubmittedJob
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.stored_job import StoredJob, write_stored_job

if TYPE_CHECKING:
    from fleetrec.config.cluster.ray import RayOptions

FOLDER = "ray-job"
DRIVER, RUNTIME = "driver.json", "runtime_env.json"
LEFT_OUT = ("backend.yaml", "/job.json")  # of what is sent to the cluster
TIMEOUT_S = 600.0
STATES: Mapping[str, JobState] = MappingProxyType(
    {
        "PENDING": "pending",
        "RUNNING": "running",
        "STOPPED": "cancelled",
        "SUCCEEDED": "succeeded",
        "FAILED": "failed",
    }
)
STATUS = re.compile(
    rf"\b({'|'.join(STATES)})\b|[Jj]ob '\S+' (?:was )?({'|'.join(map(str.lower, STATES))})"
)


class RayEngine(Engine):
    """Renders a job as the files of its driver, which ``ray job submit`` sends with the folder."""

    def __init__(self, options: RayOptions) -> None:
        self._options = options

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the job, how its processes are placed, and the environment of the driver."""
        options = self._options
        target = folder / FOLDER
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        placing = {
            "strategy": options.strategy,
            "max_restarts": options.max_restarts,
            "grace_s": options.grace_s,
            "work_path": f"{options.work_path}/{folder.resolve().name}",
            "state_path": options.state_path and f"{options.state_path}/{folder.resolve().name}",
        }
        environment = {
            **options.runtime_env,
            "excludes": list(LEFT_OUT),
            "env_vars": {
                "RAY_DEDUP_LOGS": "0",  # processes print the same lines
                "RAY_JOB_STOP_WAIT_TIME_S": str(options.grace_s + 10),
            },
        }
        stored = write_stored_job(StoredJob(job=job, tasks=()), target)
        for name, content in ((DRIVER, placing), (RUNTIME, environment)):
            (target / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return [*stored, target / DRIVER, target / RUNTIME]

    def submit(self, folder: Path) -> SubmittedJob:
        """Send the folder to the cluster, and start the driver there."""
        runtime = folder / FOLDER / RUNTIME
        if not runtime.is_file():
            raise ConfigError([f"{runtime}: no such file; this is no folder of a job for Ray"])
        job_id = f"{folder.resolve().name}-{secrets.token_hex(3)}"
        self._run(
            *("submit", "--no-wait", f"--submission-id={job_id}"),
            f"--working-dir={folder}",
            f"--runtime-env={runtime}",
            *("--", "python", "-m", "fleetrec.launch.ray_driver"),
        )
        address = self._options.address
        return SubmittedJob(
            job_id=job_id, follow=(f"ray job logs --address={address} --follow {job_id}",)
        )

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Ask the cluster for the state of the driver."""
        del folder
        return status_of(self._run("status", job_id))

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Return what the driver and the processes of the job have printed."""
        del folder
        return iter(self._run("logs", job_id).splitlines())

    def cancel(self, folder: Path, job_id: str) -> None:
        """Let the workers save themselves, and end the job."""
        del folder
        self._run("stop", job_id, timeout_s=TIMEOUT_S + self._options.grace_s)

    def _run(self, verb: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        command = [_client(), "job", verb, f"--address={self._options.address}", *arguments]
        return _output(command, timeout_s=timeout_s)


def status_of(text: str) -> JobStatus:
    """Return the state that the client prints for a job."""
    found = [first or second for first, second in STATUS.findall(text)]
    state = STATES[found[-1].upper()] if found else "unknown"
    message = re.search(r"Status message: (.*)", text)
    return JobStatus(state=state, detail="" if message is None else message[1].strip())


def _client() -> str:
    """Return the program ``ray``: that of this environment, or one on PATH."""
    own = Path(sys.executable).with_name("ray")
    found = str(own) if own.is_file() else shutil.which("ray")
    if found is None:
        raise UnavailableError(
            "ray: not found; install it with: pip install 'fleetrec[ray]', in the version of the "
            "cluster"
        )
    return found


def _output(command: Sequence[str], *, timeout_s: float) -> str:
    words = " ".join(("ray", *command[1:4]))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{words}: no answer within {timeout_s:g} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise UnavailableError(f"{words}: exit status {done.returncode}: {' '.join(said)}")
    return done.stdout
