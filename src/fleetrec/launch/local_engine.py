"""Jobs on this machine, for trying out what a cluster would get."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.launch.engine import Engine, JobState, JobStatus, SubmittedJob
from fleetrec.launch.job_files import write_private
from fleetrec.launch.job_spec import JobSpec, Resources, RoleSpec
from fleetrec.launch.local import LocalLauncher, run_job

RENDERED = "local.json"
LOGS = "logs"
CANCEL_S = 90.0


class LocalEngine(Engine):
    """Runs a job as processes of this machine, in the background.

    Its id is the number of the process that supervises the others, and when that began.
    """

    def __init__(self, options: object = None) -> None:
        del options  # it has none

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the job, with its secrets, for the owner only."""
        roles = [
            {
                "name": role.name,
                "replicas": role.replicas,
                "command": role.command,
                "env": dict(role.env),
                "cpus": role.resources.cpus,
                "num_ports": role.num_ports,
                "restart": role.restart,
            }
            for role in job.roles
        ]
        text = json.dumps({"name": job.name, "env": dict(job.env), "roles": roles}, indent=1)
        write_private(folder / RENDERED, f"{text}\n".encode())
        return [folder / RENDERED]

    def submit(self, folder: Path) -> SubmittedJob:
        """Start the supervisor of the job."""
        read_rendered(folder)
        (folder / LOGS).mkdir(exist_ok=True)
        with (folder / LOGS / "supervisor").open("ab") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "fleetrec.launch.local_engine"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        job_id = f"{process.pid}-{_started_at(process.pid)}"
        return SubmittedJob(job_id=job_id, follow=(f"tail -F {folder / LOGS}/*",))

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Return the state of the supervisor, or what it has written at its end."""
        if _is_running(job_id):
            return JobStatus(state="running")
        path = folder / _outcome(job_id)
        if not path.is_file():
            return JobStatus(state="failed", detail="its supervisor was killed")
        outcome = json.loads(path.read_text(encoding="utf-8"))
        if outcome["status"] == 0:
            return JobStatus(state="succeeded")
        state: JobState = "cancelled" if outcome["was_stopped"] else "failed"
        return JobStatus(state=state, detail=outcome["failed"])

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Return the lines of all logs, each with the name of its process."""
        self.status(folder, job_id)
        for path in sorted((folder / LOGS).glob("*.*")):
            if path.is_file():
                with path.open(encoding="utf-8", errors="replace") as stream:
                    yield from (f"{path.name}: {line.rstrip()}" for line in stream)

    def cancel(self, folder: Path, job_id: str) -> None:
        """Let the workers save themselves, and wait until all processes have ended."""
        if not _is_running(job_id):
            raise ConfigError([f"{folder}: {job_id} does not run"])
        os.kill(_process_of(job_id), signal.SIGTERM)
        deadline = time.monotonic() + CANCEL_S
        while _is_running(job_id):
            if time.monotonic() > deadline:
                raise UnavailableError(f"{job_id}: did not end within {CANCEL_S:g} s")
            time.sleep(0.1)


def read_rendered(folder: Path) -> JobSpec:
    """Read the rendered job."""
    path = folder / RENDERED
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return JobSpec(
            name=data["name"],
            env=data["env"],
            roles=tuple(
                RoleSpec(
                    name=role["name"],
                    replicas=role["replicas"],
                    command=tuple(role["command"]),
                    env=role["env"],
                    resources=Resources(cpus=role["cpus"]),
                    num_ports=role["num_ports"],
                    restart=role["restart"],
                )
                for role in data["roles"]
            ),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError([f"{path}: no rendered job: {error}"]) from error


def supervise(folder: Path) -> None:
    """Run the job of a folder to its end."""
    stopped = [False]

    def stop(*_: object) -> None:
        stopped[0] = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    job = read_rendered(folder)
    if job.servers is not None:  # the state of an earlier submission
        shutil.rmtree(folder / "servers", ignore_errors=True)
    running = LocalLauncher().start(job, folder / LOGS)
    outcome = run_job(running, should_stop=lambda: stopped[0])
    result = {
        "status": outcome.status,
        "was_stopped": outcome.was_stopped,
        "failed": "\n".join([outcome.failed, *outcome.tail]).strip(),
    }
    own = f"{os.getpid()}-{_started_at(os.getpid())}"
    (folder / _outcome(own)).write_text(json.dumps(result), encoding="utf-8")


def _outcome(job_id: str) -> str:
    return f".outcome.{job_id}.json"


def _process_of(job_id: str) -> int:
    number, _, _ = job_id.partition("-")
    if not number.isdecimal():
        raise ConfigError([f"{job_id}: not the id of a local job"])
    return int(number)


def _is_running(job_id: str) -> bool:
    return job_id == f"{_process_of(job_id)}-{_started_at(_process_of(job_id))}"


def _started_at(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; empty if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


if __name__ == "__main__":
    supervise(Path.cwd())
