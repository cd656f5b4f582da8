"""What a process of a job tells those who watch it: one small file, replaced as a whole."""

import dataclasses
import json
import os
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a process goes; what it does not know or have is None."""

    epoch: int | None = None
    batch: int | None = None
    per_s: float | None = None  # samples of a worker, calls of a server
    loss: float | None = None
    auc: float | None = None
    queue: int | None = None  # pushes that wait


def write_status(path: Path, status: Status) -> None:
    """Replace the file; a reader sees the old or the new one, never half of it."""
    staging = path.with_name(f"{path.name}.{os.getpid()}")
    staging.write_text(json.dumps(dataclasses.asdict(status)), encoding="utf-8")
    staging.replace(path)


def read_status(path: Path) -> Status:
    """Return what was written last; an empty status if nothing sound is there."""
    try:
        return Status(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Status()
