"""Make a finished folder visible in one step."""

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from fleetrec.core.fault_points import fault_point
from fleetrec.core.storage import sync

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def publish(directory: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a hidden sibling, then replace ``directory`` with it.

    Readers find the new folder complete or not at all, also if it replaces an older one; a crash
    leaves only a hidden folder, which can be deleted.
    """
    staging = make_hidden(directory)
    try:
        write(staging)
        put_in_place(staging, directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # what is left: our failure, or the old folder


def make_hidden(directory: Path) -> Path:
    """Create a hidden sibling of ``directory``, in which its files are written."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    staging.chmod(0o755)
    return staging


def put_in_place(staging: Path, directory: Path) -> None:
    """Sync a hidden folder, then swap it with ``directory``."""
    for path in [*staging.rglob("*"), staging]:
        sync(path)
    fault_point("publish")
    _replace(staging, directory)
    sync(directory.parent)


def _replace(staging: Path, directory: Path) -> None:
    if not directory.exists():
        staging.rename(directory)
        return
    if not _exchange(staging, directory):  # a file system that cannot swap: two steps
        old = staging.with_name(f"{staging.name}.old")
        directory.rename(old)
        try:
            staging.rename(directory)
        except OSError:
            old.rename(directory)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two folders atomically where the system can."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = (os.fsencode(a), os.fsencode(b))
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(b))
