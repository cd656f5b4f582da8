"""Which files hold the data."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fleetrec.core.errors import DataError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file, its name within the data set, and its size on disk."""

    path: Path
    name: str
    num_bytes: int


def list_files(data_path: Path) -> tuple[DataFile, ...]:
    """Return all files below a folder (or the one file), sorted by path, hidden ones left out."""
    if data_path.is_file():
        return (_data_file(data_path, data_path.parent),)
    if not data_path.is_dir():
        raise DataError(f"{data_path}: no such file or folder")
    found = [
        path
        for path in data_path.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(data_path).parts)
    ]
    if not found:
        raise DataError(f"{data_path}: the folder holds no data file (hidden files do not count)")
    return tuple(_data_file(path, data_path) for path in sorted(found, key=str))


def shuffled_files(files: Sequence[DataFile], *, seed: int, epoch: int) -> tuple[DataFile, ...]:
    """Return the files in the order of one epoch; the same seed gives the same order."""
    order = np.random.default_rng([seed, epoch]).permutation(len(files))
    return tuple(files[i] for i in order)


def fingerprint(files: Sequence[DataFile]) -> str:
    """Return a digest of names and sizes, to notice that the data of a run has changed."""
    listing = "\n".join(f"{file.name}\t{file.num_bytes}" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def _data_file(path: Path, root: Path) -> DataFile:
    name = str(path.relative_to(root))
    return DataFile(path=path, name=name, num_bytes=path.stat().st_size)
