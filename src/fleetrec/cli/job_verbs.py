"""``fleetrec job``: ask the engine of a job folder."""

import sys
from pathlib import Path

from fleetrec.cli.submit import engine_of
from fleetrec.core.errors import ConfigError
from fleetrec.launch.submission import JobRecord, load_record


def show_status(folder: Path, *, job_id: str | None) -> None:
    """Print the state of a job; exit with 1 if it has not succeeded and never will."""
    record = load_record(folder)
    job_id = _job_id(record, folder, job_id)
    status = engine_of(record, folder).status(folder, job_id)
    print(f"{job_id}: {status.state}")
    if status.detail:
        print(status.detail)
    if status.state in ("failed", "cancelled"):
        sys.exit(1)


def show_logs(folder: Path, *, job_id: str | None) -> None:
    """Print the lines of a job."""
    record = load_record(folder)
    for line in engine_of(record, folder).logs(folder, _job_id(record, folder, job_id)):
        print(line.rstrip("\n"))


def cancel_job(folder: Path, *, job_id: str | None) -> None:
    """End a job."""
    record = load_record(folder)
    job_id = _job_id(record, folder, job_id)
    engine_of(record, folder).cancel(folder, job_id)
    print(f"{job_id}: cancelled")


def _job_id(record: JobRecord, folder: Path, wanted: str | None) -> str:
    """Return the job that was submitted last, or the one of that id."""
    known = [one.job_id for one in record.submissions]
    if not known:
        raise ConfigError([f"{folder}: was not submitted; fleetrec submit {folder} does it"])
    if wanted is None:
        return known[-1]
    if wanted not in known:
        raise ConfigError(
            [f"--id {wanted}: not submitted from {folder}; it has {', '.join(known)}"]
        )
    return wanted
