"""The contract of cluster engines: a job is rendered to a folder, and submitted from there."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

from fleetrec.launch.job_spec import JobSpec

JobState = Literal["pending", "running", "succeeded", "failed", "cancelled", "unknown"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job that an engine has accepted. ``follow`` are shell commands that show its progress.

    ``output`` is what the engine's client has printed, without secrets.
    """

    job_id: str
    follow: tuple[str, ...] = ()
    output: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The state of a submitted job, with the engine's own words in ``detail``."""

    state: JobState
    detail: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the job runs any more."""
        return self.state in ("succeeded", "failed", "cancelled")


class Engine(Protocol):
    """Submits jobs to one kind of cluster.

    ``submit`` reads nothing but the rendered files, so that a user can edit them and submit the
    folder again. A client or daemon that is missing is an ``UnavailableError`` that names it.
    """

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the files that describe the job to the engine; returns them.

        Values of variables whose names ``is_secret`` are in files that only the owner can read.
        """
        ...

    def submit(self, folder: Path) -> SubmittedJob:
        """Submit the rendered job."""
        ...

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Ask the engine for the state of the job."""
        ...

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Return the lines that the processes of the job have printed, as far as they are here."""
        ...

    def cancel(self, folder: Path, job_id: str) -> None:
        """End the job and wait until the engine has accepted that."""
        ...
