"""The logs in the folder of a submitted job."""

from collections.abc import Iterator
from pathlib import Path

from fleetrec.launch.stored_job import LOG_FOLDER, read_stored_job


def log_lines(folder: Path, engine_log: Path) -> Iterator[str]:
    """Return the lines of the engine, then those of each server and worker, with its name."""
    yield from _lines(engine_log, "")
    job = read_stored_job(folder).job
    for role in sorted(job.roles, key=lambda role: role.name):
        for index in range(role.replicas):
            name = role.log(index)
            yield from _lines(folder / LOG_FOLDER / name, f"{name}: ")


def _lines(path: Path, prefix: str) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                yield prefix + line.rstrip("\n")
    except FileNotFoundError:
        return
