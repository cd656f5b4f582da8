"""Files and folders at a path of this machine, or at any URL that fsspec understands.

A local path is a URL without a scheme. ``checkpoint/staging.py`` publishes whole folders on top.
"""

import contextlib
import os
import posixpath
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from fleetrec.core.errors import (
    CheckpointError,
    FleetRecError,
    MissingFileError,
    UnavailableError,
)
from fleetrec.core.remote_files import download, file_system, open_remote, put

SEPARATOR = "://"
_UNFINISHED = ".part"
_LOCAL_SCHEMES = ("file://", "local://")
_EXTRAS = MappingProxyType({"s3://": "fleetrec[s3]", "s3a://": "fleetrec[s3]"})
_CREDENTIALS = re.compile(r"(?<=://)[^/@:]*:[^/@]*@")  # not abfs://container@account
_QUERY = re.compile(r"^(\w+::)*(https?://[^?]*)\?.*$")


def to_url(location: str | Path) -> str:
    """Return a path or a URL as text, without a scheme if it is local."""
    text = str(location)
    for scheme in _LOCAL_SCHEMES:
        text = text.removeprefix(scheme)
    return text if SEPARATOR in text or not text else str(Path(text))


def is_local(url: str) -> bool:
    """Return whether a URL is a path of this machine."""
    return SEPARATOR not in to_url(url)


def local_path(url: str) -> Path:
    """Return a local URL as a path."""
    assert is_local(url), f"not a local path: {shown(url)}"
    return Path(to_url(url))


def shown(url: str) -> str:
    """Return a URL for messages and logs: without passwords and signed queries."""
    return _QUERY.sub(r"\2?...", _CREDENTIALS.sub("***@", url))


def has_credentials(url: str) -> bool:
    """Return whether a URL holds a password."""
    return _CREDENTIALS.search(url) is not None


def join(url: str | Path, *parts: str) -> str:
    """Return the URL of a path below a URL."""
    url = to_url(url)
    if is_local(url):
        return str(Path(url, *parts))
    kept = [part.strip("/") for part in parts if part not in ("", ".")]
    return "/".join([url.rstrip("/"), *kept])


def name_of(url: str) -> str:
    """Return the last part of a URL."""
    return posixpath.basename(to_url(url).rstrip("/"))


def parent_of(url: str) -> str:
    """Return the folder that a URL lies in."""
    if is_local(url):
        return str(local_path(url).parent)
    scheme, path = _split(url)
    return scheme + posixpath.dirname(path)


def absolute(url: str) -> str:
    """Return a URL that means the same to a process with another working directory."""
    return str(local_path(url).resolve()) if is_local(url) else url


def relative(url: str, *, to: str) -> str:
    """Return a reference that ``resolve`` follows from ``to`` to ``url``.

    It stays true if both are moved together. Raises if they are not on the same storage.
    """
    here, there = absolute(to), absolute(url)
    if is_local(here) and is_local(there):
        return Path(os.path.relpath(there, here)).as_posix()
    (scheme, base), (other, path) = _split(here), _split(there)
    if scheme != other or base.partition("/")[0] != path.partition("/")[0]:
        raise CheckpointError(f"{shown(to)} and {shown(url)} must be on the same storage")
    return posixpath.relpath(path, base)


def resolve(reference: str, *, base: str) -> str:
    """Return the URL of a reference relative to ``base``.

    Raises:
        ValueError: The reference is not relative, or leads out of the bucket.
    """
    if posixpath.isabs(reference) or SEPARATOR in reference:
        raise ValueError(f"expected a relative reference, got {shown(reference)!r}")
    if is_local(base):
        return os.path.normpath(local_path(base).resolve() / reference)
    scheme, path = _split(base)
    root, _, below = path.partition("/")
    found = posixpath.normpath(posixpath.join(below, reference))
    if found == ".." or found.startswith("../"):
        raise ValueError(f"{reference!r} leads out of {shown(scheme + root)}")
    return join(f"{scheme}{root}", found)


def exists(url: str) -> bool:
    """Return whether a file or a folder is there."""
    with storage_errors(url, doing="read"):
        if is_local(url):
            return local_path(url).exists()
        system, path = file_system(url)
        return bool(system.exists(path))


def list_names(url: str) -> list[str]:
    """Return the names of files and folders in a folder, sorted; none if it is missing."""
    if is_local(url):
        folder = local_path(url)
        with storage_errors(url, doing="listed"):
            return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    with storage_errors(url, doing="listed"):
        system, path = file_system(url)
        try:
            found = system.ls(path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
    names = {name_of(name) for name in found if name.strip("/") != path.strip("/")}
    return sorted(names)


def sizes_below(url: str) -> dict[str, int]:
    """Return the bytes of all files below a folder, by their paths relative to it."""
    with storage_errors(url, doing="listed"):
        if is_local(url):
            folder = local_path(url)
            files = [path for path in folder.rglob("*") if path.is_file()]
            found = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
        else:
            system, path = file_system(url)
            found = {
                posixpath.relpath(name, path): int(details["size"] or 0)
                for name, details in system.find(path, detail=True).items()
            }
    return dict(sorted(found.items()))


def size_of(url: str) -> int:
    """Return the bytes of a file."""
    with storage_errors(url, doing="read"):
        if is_local(url):
            return local_path(url).stat().st_size
        system, path = file_system(url)
        return int(system.size(path) or 0)


def modified_at(url: str) -> float | None:
    """Return when a file was last written, in seconds since 1970; None if that is not known."""
    if is_local(url):
        try:
            return local_path(url).stat().st_mtime
        except OSError:
            return None
    with storage_errors(url, doing="read"):
        system, path = file_system(url)
        try:
            return float(system.modified(path).timestamp())
        except (NotImplementedError, FileNotFoundError, AttributeError):
            return None


def open_read(url: str, **options: Any) -> BinaryIO:
    """Open a file for reading; ``options`` are those of fsspec, for files at URLs."""
    if is_local(url):
        return local_path(url).open("rb")
    return open_remote(url, **options)


def read_bytes(url: str) -> bytes:
    """Return the content of a file; raises ``MissingFileError`` if it is not there."""
    with storage_errors(url, doing="read"):
        if is_local(url):
            return local_path(url).read_bytes()
        system, path = file_system(url)
        return bytes(system.cat_file(path))


def write_bytes(url: str, content: bytes) -> None:
    """Write a file atomically: readers get the old content or the new one, never a part."""
    with storage_errors(url, doing="written"), writing(url) as path:
        path.write_bytes(content)


@contextlib.contextmanager
def writing(url: str) -> Iterator[Path]:
    """Yield a local file to write, which is at ``url`` as a whole when the block ends.

    After an exception in the block nothing has changed at ``url``.
    """
    if not is_local(url):
        with _temporary_folder() as folder:
            file = folder / name_of(url)
            yield file
            with storage_errors(url, doing="written"):
                put(file, url)
        return
    target = local_path(url)
    with storage_errors(url, doing="written"):
        target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}{_UNFINISHED}")
    try:
        yield staging
        with storage_errors(url, doing="written"):
            sync(staging)
            staging.replace(target)
    finally:
        staging.unlink(missing_ok=True)


def discard_unfinished(url: str) -> None:
    """Delete what a process that was killed while ``writing`` has left; no other may write it."""
    if not is_local(url):
        return
    target = local_path(url)
    unfinished = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}{re.escape(_UNFINISHED)}")
    for name in list_names(parent_of(url)):
        if unfinished.fullmatch(name):
            target.with_name(name).unlink(missing_ok=True)


def check_writable(url: str) -> None:
    """Check that a remote URL is writable by writing and deleting a small file."""
    if not is_local(url):
        probe = join(url, f".write-test-{uuid.uuid4().hex[:8]}")
        write_bytes(probe, b"")
        delete(probe)


@contextlib.contextmanager
def local_file(url: str) -> Iterator[Path]:
    """Yield a local file with the content of ``url``: itself if it is local, else a copy."""
    if is_local(url):
        yield local_path(url)
        return
    with _temporary_folder() as folder:
        file = folder / name_of(url)
        file.write_bytes(read_bytes(url))
        yield file


@contextlib.contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Yield a local folder with the files below a URL: itself if it is local, else a copy.

    Copies are made in the folder for temporary files and are deleted when the block ends.
    """
    if is_local(url):
        yield local_path(url)
        return
    with _temporary_folder() as folder:
        _download(url, folder)
        try:
            yield folder
        except CheckpointError as error:  # errors name the copy, but the user knows the URL
            raise type(error)(str(error).replace(str(folder), shown(url))) from error


def delete(url: str) -> None:
    """Delete a file or a folder with all files below; nothing happens if there is none."""
    with storage_errors(url, doing="deleted"):
        if not is_local(url):
            system, path = file_system(url)
            with contextlib.suppress(FileNotFoundError):
                system.rm(path, recursive=True)
        elif local_path(url).is_dir():
            shutil.rmtree(local_path(url))
        else:
            local_path(url).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make sure that a local file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def storage_errors(
    url: str, *, doing: str, kind: type[FleetRecError] = CheckpointError
) -> Iterator[None]:
    """Re-raise every storage error as a one-line ``kind``, without credentials.

    A missing package is an ``UnavailableError``; a missing file of a checkpoint, so that callers
    can handle it apart from other failures, a ``MissingFileError``.
    """
    what = f"{shown(url)}: cannot be {doing}"
    try:
        yield
    except FleetRecError:
        raise
    except ImportError as error:
        extra = _EXTRAS.get(url.partition(SEPARATOR)[0] + SEPARATOR)
        hint = f"; pip install '{extra}'" if extra else ""
        raise UnavailableError(f"{what}: {_one_line(error, url)}{hint}") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = MissingFileError if kind is CheckpointError else kind
        raise missing(f"{what}: {_one_line(error, url)}") from error
    except (OSError, EOFError) as error:
        raise kind(f"{what}: {_one_line(error, url)}") from error
    except Exception as error:
        if is_local(url):
            raise
        # File systems of URLs are plug-ins, which raise their own errors.
        raise kind(f"{what}: {_one_line(error, url)}") from error


def _download(url: str, folder: Path) -> None:
    names = list(sizes_below(url))
    if not names:
        raise MissingFileError(f"{shown(url)}: no such folder, or it holds no file")
    if any(name.startswith("../") for name in names):
        raise CheckpointError(f"{shown(url)}: damaged: a file lies outside the folder")
    with storage_errors(url, doing="read"):
        download(url, names, folder)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fleetrec-") as name:
        yield Path(name)


def _split(url: str) -> tuple[str, str]:
    """Return the scheme with its separator, and the path with the name of a bucket or host."""
    scheme, separator, path = url.rpartition(SEPARATOR)
    return scheme + separator, path.strip("/")


def _one_line(error: BaseException, url: str) -> str:
    return shown(" ".join(str(error).split()).replace(url, shown(url))) or type(error).__name__
