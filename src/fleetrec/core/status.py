"""The status that a process of a job reports to its launcher: a small file, replaced as a whole."""

import dataclasses
import json
import os
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Progress and rates of a process; None where it has no value."""

    epoch: int | None = None
    batch: int | None = None
    per_s: float | None = None  # samples of a worker, calls of a server
    loss: float | None = None
    auc: float | None = None
    queue: int | None = None  # pending pushes


def write_status(path: Path, status: Status) -> None:
    """Replace the file; a reader gets the old or the new one, never half of it."""
    staging = path.with_name(f"{path.name}.{os.getpid()}")
    staging.write_text(json.dumps(dataclasses.asdict(status)), encoding="utf-8")
    staging.replace(path)


def read_status(path: Path) -> Status:
    """Return what was written last; an empty status if the file is missing or damaged."""
    try:
        return Status(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Status()
