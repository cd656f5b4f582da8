"""The data of a process on a node: fetched before its command starts, uploaded after its end."""

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleetrec.core import storage
from fleetrec.core.errors import DataError
from fleetrec.core.partition import contiguous_block
from fleetrec.core.place import Place
from fleetrec.core.remote_files import download, put
from fleetrec.launch.cluster_job import STATE_FOLDER

logger = logging.getLogger(__name__)

TRAIN_DATA = "train_data"
POLL_S = 0.2
SILENCE_S = 600.0  # without a new file of the other workers
MARKERS = ("_SUCCESS",)

Listing = Mapping[str, int]  # bytes by relative path


def fetch(url: str, folder: Path, *, part: slice | None = None) -> int:
    """Fetch the files below a URL into a folder; returns how many are there.

    A path of this machine is linked instead. ``part`` are the files of one worker.
    """
    if storage.is_local(url):
        _link(storage.local_path(url), folder)
        return len(list_files(url))
    names = list(list_files(url))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".fetch.lock").open("ab") as lock:  # ranks of a machine fetch once
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetch_files(url, names[part] if part else names, folder)


def list_files(url: str) -> Listing:
    """Return the data files below a URL, sorted as a data set sorts them."""
    with storage.storage_errors(url, doing="listed", kind=DataError):
        found = storage.sizes_below(url)
    sizes = {name: size for name, size in found.items() if _counts(name)}
    if not sizes:
        raise DataError(f"{storage.shown(url)}: no such folder, or it holds no file")
    return dict(sorted(sizes.items()))


def fetch_files(url: str, names: Sequence[str], folder: Path) -> int:
    """Fetch some files; each appears as a whole."""
    sizes = list_files(url)
    missing = [name for name in names if not _is_there(folder / name, sizes[name])]
    staging = folder / f".fetch.{os.getpid()}"
    staging.mkdir(parents=True, exist_ok=True)
    try:
        with storage.storage_errors(url, doing="fetched", kind=DataError):
            if missing:
                download(url, missing, staging)
        for name in missing:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(folder / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return len(names)


def fetch_together(url: str, folder: Path, place: Place) -> int:
    """Fetch this worker's share into a folder of all workers, and wait for the other shares."""
    if storage.is_local(url):
        return fetch(url, folder)
    sizes = list_files(url)
    names = list(sizes)
    own = contiguous_block(len(names), place.rank, place.num_workers)
    fetch_files(url, [names[index] for index in own], folder)
    changed_at, num_missing = time.monotonic(), len(names)
    while missing := [name for name in names if not _is_there(folder / name, sizes[name])]:
        if len(missing) < num_missing:
            changed_at, num_missing = time.monotonic(), len(missing)
        if time.monotonic() - changed_at > SILENCE_S:
            raise DataError(
                f"{folder}: other workers have not fetched {missing[0]} within {SILENCE_S:g} s; if "
                "they do not share this folder, set config.shared_folder: false"
            )
        time.sleep(POLL_S)
    return len(names)


def share_of(url: str, place: Place) -> slice | None:
    """Return the files of a worker; None if it needs all, as there are fewer than workers."""
    if storage.is_local(url):
        return None
    count = len(list_files(url))
    if count < place.num_workers:
        return None
    own = contiguous_block(count, place.rank, place.num_workers)
    return slice(own.start, own.stop)


def own_folder(place: Place) -> Path:
    """Return a working folder that this process, and the command that it becomes, has alone.

    That is the current one, or, if another process of the machine has it, a new one with links to
    the files of the job.
    """
    # Nothing closes it: the command inherits the lock and has it until its end.
    lock = os.open(".fetch.lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.fcntl(lock, fcntl.F_SETFD, 0)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        folder = Path(f".{place.role}.{place.rank}")
        folder.mkdir(exist_ok=True)
        for path in Path().iterdir():
            link = folder / path.name
            if path.is_file() and not link.exists() and path.name != ".fetch.lock":
                link.symlink_to(path.absolute())
        return folder.absolute()
    return Path.cwd()


def snapshot(folder: Path, *, without: Sequence[str] = ()) -> dict[str, tuple[float, int]]:
    """Return what files a folder has, to find those that a command writes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if is_hidden or parts[0] in (*without, STATE_FOLDER) or not path.is_file():
            continue
        details = path.stat()
        found["/".join(parts)] = (details.st_mtime, details.st_size)
    return found


def upload_new(
    folder: Path, url: str, *, before: Mapping[str, tuple[float, int]], without: Sequence[str]
) -> int:
    """Upload the files that are new or changed, the oldest first; returns how many there are.

    Manifests are written last, so that readers find them when the rest is there.
    """
    now = snapshot(folder, without=without)
    names = sorted(
        (name for name, details in now.items() if before.get(name) != details),
        key=lambda name: now[name][0],
    )
    for name in names:
        target = storage.join(url, name)
        with storage.storage_errors(target, doing="uploaded", kind=DataError):
            if storage.is_local(target):
                storage.local_path(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / name, storage.local_path(target))
            else:
                put(folder / name, target)
    return len(names)


def _link(source: Path, folder: Path) -> None:
    if not source.exists():
        raise DataError(f"{source}: no such folder on this node")
    if folder.is_symlink() or folder.exists():
        if folder.resolve() != source.resolve():
            raise DataError(f"{folder}: is there already, and is not {source}")
        return
    try:
        folder.symlink_to(source)
    except FileExistsError:  # another process was faster
        _link(source, folder)


def _counts(name: str) -> bool:
    parts = name.split("/")
    return not any(part.startswith(".") for part in parts) and parts[-1] not in MARKERS


def _is_there(path: Path, num_bytes: int) -> bool:
    """Return whether a file is fetched; some servers do not say its size, which is then 0."""
    return path.is_file() and num_bytes in (0, path.stat().st_size)
