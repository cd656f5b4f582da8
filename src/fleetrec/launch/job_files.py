"""The files of a job folder: what is copied there, and files that hold secrets."""

import dataclasses
import glob
import os
from collections.abc import Sequence
from pathlib import Path

PRIVATE = 0o600
BACKEND_FILE = "backend.yaml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobFiles:
    """Files to copy, by their names in the job folder; all of them lie at its top."""

    sources: dict[str, Path]
    backend: Path

    def copy_to(self, folder: Path, *, secrets: Sequence[str]) -> None:
        """Copy the files; only the owner can read those that hold a secret."""
        for name, source in self.sources.items():
            content = source.read_bytes()
            if any(secret.encode() in content for secret in secrets if secret):
                write_private(folder / name, content)
                continue
            (folder / name).write_bytes(content)
            (folder / name).chmod(source.stat().st_mode & 0o755 | PRIVATE)
        write_private(folder / BACKEND_FILE, self.backend.read_bytes())


def plan_files(
    patterns: Sequence[str], *, job: Path, job_name: str, backend: Path, reserved: Sequence[str]
) -> tuple[JobFiles, list[str]]:
    """Return the files of a job folder, and problems.

    Patterns are relative to the current folder. ``reserved`` are names that engines write.
    """
    problems: list[str] = []
    sources = {job_name: job}
    taken = {BACKEND_FILE, *reserved}
    for pattern in patterns:
        found = [Path(name) for name in glob.glob(pattern)]  # noqa: PTH207 (may be absolute)
        matches = sorted(path for path in found if path.is_file())
        if not matches:
            what = "only folders" if found else "no file"
            problems.append(f"submit.files: {pattern!r} matches {what}")
        for path in matches:
            if path.samefile(job) or path.samefile(backend):
                continue
            other = sources.get(path.name)
            if path.name in taken:
                problems.append(
                    f"submit.files: {path}: a file of the job folder is called {path.name}; "
                    "rename yours"
                )
            elif other is not None and not other.samefile(path):
                problems.append(f"submit.files: {other} and {path} would both become {path.name}")
            else:
                sources[path.name] = path
    return JobFiles(sources=sources, backend=backend), list(dict.fromkeys(problems))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can ever read, not even while it is written."""
    path.unlink(missing_ok=True)  # it may have been readable
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def create_job_folder(parent: Path, *, job_name: str, minute: str) -> Path:
    """Create ``<job_name>_<YYYYmmddHHMM>``; a second one of a minute gets a suffix."""
    suffix, number = "", 1
    while True:
        folder = parent / f"{job_name}_{minute}{suffix}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            suffix = f"_{number}"
        else:
            return folder
