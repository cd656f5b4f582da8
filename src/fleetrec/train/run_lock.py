"""A lock on the folder of an online run, so that no second run writes there. No torch."""

import contextlib
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleetrec.core import storage
from fleetrec.core.errors import ConfigError

logger = logging.getLogger(__name__)

LOCK = "run.lock"


@contextlib.contextmanager
def run_lock(url: str) -> Iterator[None]:
    """Hold the lock of a folder in the block; raises ConfigError if another process holds it.

    The lock file names the host, the process and when it started. The kernel releases the lock of a
    process that ends, however it ends, so the file of a dead process is no obstacle. Folders at
    URLs have no lock: there two runs are not noticed.
    """
    if not storage.is_local(url):
        yield
        return
    path = storage.local_path(url) / LOCK
    with storage.storage_errors(url, doing="written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(descriptor, path, url)
        with storage.storage_errors(str(path), doing="written"):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _own_content(), 0)
        yield
    finally:
        os.close(
            descriptor
        )  # releases it; deleting the file would let two processes lock two files


def _lock(descriptor: int, path: Path, url: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(
            [
                f"model_save_path {storage.shown(url)}: {_holder(path)} trains into this folder "
                "and has not ended; wait for it, stop it, or choose another model_save_path"
            ]
        ) from error
    except OSError as error:  # a file system without locks
        logger.warning("%s: cannot be locked: %s; start no second run on this folder", path, error)


def _own_content() -> bytes:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    content = {"host": socket.gethostname(), "pid": os.getpid(), "started": started}
    return (json.dumps(content) + "\n").encode()


def _holder(path: Path) -> str:
    """Return in words who holds the lock; the file is empty for a moment when it is taken."""
    try:
        plain: Any = json.loads(path.read_text(encoding="utf-8"))
        return f"process {plain['pid']} on {plain['host']}, started {plain['started']},"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
