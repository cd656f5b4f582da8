"""A process of a job that serves parameters, as a launcher told it to."""

import logging
import signal
import tempfile
import threading
from pathlib import Path

from fleetrec.core.env import (
    STATE,
    read_certificate,
    read_snapshot_bytes,
    read_state_path,
    read_status_path,
    read_token,
)
from fleetrec.core.errors import CheckpointError
from fleetrec.core.topology import Topology
from fleetrec.server.endpoint import Security
from fleetrec.server.journal import JournalError
from fleetrec.server.serve import SNAPSHOT_BYTES, ServerOptions, serve

logger = logging.getLogger(__name__)


def run_server(topology: Topology, *, initial: str | None) -> None:
    """Serve where the launcher says that a server keeps what it holds."""
    directory = read_state_path()
    if directory is not None:
        serve_until_told(topology, directory, initial=initial)
        return
    logger.warning("%s is not set: what this server holds dies with it", STATE)
    with tempfile.TemporaryDirectory(prefix="fleetrec-server-") as folder:
        serve_until_told(topology, Path(folder), initial=initial)


def serve_until_told(topology: Topology, directory: Path, *, initial: str | None = None) -> None:
    """Serve until all workers have finished, or SIGTERM or SIGINT comes.

    A folder that is not empty is taken up: then the server is one that was restarted.
    """
    is_stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_stopped.set())
    directory.mkdir(parents=True, exist_ok=True)
    options = ServerOptions(
        index=topology.index,
        num_servers=topology.num_servers,
        num_workers=topology.num_workers,
        endpoint=topology.server_endpoints[topology.index],
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
            f"{error}; what servers keep cannot be used: remove {directory.parent}, then --resume "
            "goes on from the last checkpoint"
        ) from error


def _security() -> Security:
    certificate, key = read_certificate() or (None, None)
    return Security(token=read_token(), certificate=certificate, key=key)
