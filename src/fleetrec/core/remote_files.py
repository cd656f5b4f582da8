"""Files at URLs, through fsspec. Errors are those of its plug-ins: see ``core/storage.py``."""

import posixpath
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec  # type: ignore[import-untyped]

# One put replaces an object at once. Everywhere else a temporary file is written and renamed.
_OBJECT_STORES = frozenset(("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "obs"))


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, with no cached listings, and the path in it."""
    system, path = fsspec.core.url_to_fs(url)
    system.invalidate_cache()  # other processes may have written since the last listing
    return system, path


def open_remote(url: str, **options: Any) -> BinaryIO:
    """Open a file for reading, with options of fsspec."""
    system, path = fsspec.core.url_to_fs(url)
    return cast(BinaryIO, system.open(path, "rb", **options))


def put(file: Path, url: str) -> None:
    """Copy a local file to a URL, where it appears as a whole."""
    system, path = file_system(url)
    _make_folders(system, [path])
    if _is_object_store(system):
        system.put_file(str(file), path)
        return
    folder, name = posixpath.split(path)
    part = posixpath.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.part")
    system.put_file(str(file), part)
    system.mv(part, path)


def upload(folder: Path, url: str) -> None:
    """Copy all files of a local folder below a URL."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        return
    system, root = file_system(url)
    targets = [posixpath.join(root, path.relative_to(folder).as_posix()) for path in files]
    _make_folders(system, targets)
    system.put([str(path) for path in files], targets)


def download(url: str, names: Sequence[str], folder: Path) -> None:
    """Copy files below a URL, by their relative paths, into a local folder."""
    copies = [folder / name for name in names]
    for copy in copies:
        copy.parent.mkdir(parents=True, exist_ok=True)
    system, root = file_system(url)
    system.get([posixpath.join(root, name) for name in names], [str(copy) for copy in copies])


def _make_folders(system: Any, paths: Sequence[str]) -> None:
    """Make the folders of some files, where a file system has folders."""
    if not _is_object_store(system):
        for folder in sorted({posixpath.dirname(path) for path in paths}):
            system.makedirs(folder, exist_ok=True)


def _is_object_store(system: Any) -> bool:
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    return not _OBJECT_STORES.isdisjoint(protocols)
