"""The server process of a job."""

import contextlib
import logging
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from fleetrec.core.env import (
    STATE,
    read_certificate,
    read_listen_host,
    read_snapshot_bytes,
    read_state_path,
    read_status_path,
    read_token,
)
from fleetrec.core.errors import CheckpointError
from fleetrec.core.place import Place
from fleetrec.server.endpoint import Security
from fleetrec.server.journal import JournalError
from fleetrec.server.serve import SNAPSHOT_BYTES, ServerOptions, serve

logger = logging.getLogger(__name__)


def run_server(place: Place, *, initial: str | None) -> None:
    """Serve with the state folder of the launcher; without one, the state is not durable."""
    with _logging_to_stdout():
        directory = read_state_path()
        if directory is not None:
            serve_until_stopped(place, directory, initial=initial)
            return
        logger.warning("%s is not set: the state of this server is lost when it stops", STATE)
        with tempfile.TemporaryDirectory(prefix="fleetrec-server-") as folder:
            serve_until_stopped(place, Path(folder), initial=initial)


def serve_until_stopped(place: Place, directory: Path, *, initial: str | None = None) -> None:
    """Serve until all workers have finished, or SIGTERM or SIGINT arrives.

    A restarted server recovers its state from ``directory``.
    """
    is_stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_stopped.set())
    directory.mkdir(parents=True, exist_ok=True)
    options = ServerOptions(
        index=place.rank,
        num_servers=place.num_servers,
        num_workers=place.num_workers,
        endpoint=_listen_address(place.server_endpoints[place.rank]),
        directory=directory,
        initial=initial,
        status=read_status_path(),
        snapshot_bytes=read_snapshot_bytes() or SNAPSHOT_BYTES,
        security=_security(),
    )
    try:
        serve(options, is_stopped=is_stopped)
    except (CheckpointError, JournalError) as error:
        raise CheckpointError(
            f"{error}; the state of the servers cannot be used: remove {directory.parent}, then "
            "--resume continues from the last checkpoint"
        ) from error


@contextlib.contextmanager
def _logging_to_stdout() -> Iterator[None]:
    """Log to stdout, which launchers keep, if the program has not set up logging."""
    package = logging.getLogger("fleetrec")
    if package.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s - %(levelname)s: %(message)s"))
    before = package.level
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    try:
        yield
    finally:
        package.setLevel(before)
        package.removeHandler(handler)


def _listen_address(endpoint: str) -> str:
    host = read_listen_host()
    if host is None:
        return endpoint
    port = endpoint.rpartition(":")[2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _security() -> Security:
    certificate, key = read_certificate() or (None, None)
    return Security(token=read_token(), certificate=certificate, key=key)
