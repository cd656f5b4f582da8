"""``job.json`` of a job folder: for which backend it was made, and what was submitted when."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetrec.core.errors import ConfigError
from fleetrec.launch.engine import SubmittedJob

RECORD = "job.json"
VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One submission of a job folder."""

    job_id: str
    at: str
    follow: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What a job folder knows about itself; ``shape`` is that of the job."""

    backend: str
    name: str
    shape: Mapping[str, Any]
    submissions: tuple[Submission, ...] = ()

    def with_submission(self, job: SubmittedJob, *, at: str) -> "JobRecord":
        """Return the record after another submission."""
        added = Submission(job_id=job.job_id, at=at, follow=job.follow)
        return dataclasses.replace(self, submissions=(*self.submissions, added))

    def save(self, folder: Path) -> None:
        """Write the record to a job folder."""
        text = json.dumps({"version": VERSION, **dataclasses.asdict(self)}, indent=1)
        (folder / RECORD).write_text(f"{text}\n", encoding="utf-8")


def load_record(folder: Path) -> JobRecord:
    """Read the record of a job folder."""
    path = folder / RECORD
    if not path.is_file():
        raise ConfigError(
            [f"{folder}: no job folder, it has no {RECORD}; fleetrec submit makes one"]
        )
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise ConfigError([f"{path}: expected version {VERSION}, got {data['version']!r}"])
        return JobRecord(
            backend=str(data["backend"]),
            name=str(data["name"]),
            shape=dict(data["shape"]),
            submissions=tuple(
                Submission(
                    job_id=str(one["job_id"]), at=str(one["at"]), follow=tuple(one["follow"])
                )
                for one in data["submissions"]
            ),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError([f"{path}: damaged: {type(error).__name__}: {error}"]) from error
