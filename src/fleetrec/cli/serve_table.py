"""``fleetrec serve-table``: the rows of a checkpoint, over the wire of parameter servers."""

import logging
import threading

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.tables import table_parts
from fleetrec.cli.logs import console_logging
from fleetrec.cli.signals import StopRequest
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.server.endpoint import Endpoint, Security, check_address, only
from fleetrec.server.read_only import read_checkpoint
from fleetrec.server.serve import metrics_page

logger = logging.getLogger(__name__)

NUM_READERS = 4  # served at a time
POLL_S = 0.2  # between two looks whether to stop


def serve_table(
    checkpoint: str,
    *,
    phase: str | None,
    endpoint: str,
    metrics_port: int | None,
    security: Security,
) -> None:
    """Serve until SIGINT or SIGTERM."""
    check_address(endpoint, security)  # before the rows are loaded, which may take long
    folder = open_folder(checkpoint, kind="checkpoint")
    service = read_checkpoint(folder, _choose(checkpoint, table_parts(folder), phase))
    door = Endpoint(only(service), endpoint, security=security, num_workers=NUM_READERS)
    page = metrics_page(metrics_port, service.metrics, door)
    never = threading.Event()
    with console_logging(), StopRequest() as stop, door, page:
        host = endpoint.rpartition(":")[0]
        logger.info("the tables of %s are served on %s:%d", checkpoint, host, door.port)
        while not stop.is_requested():
            never.wait(POLL_S)


def _choose(checkpoint: str, phases: list[str], wanted: str | None) -> str:
    if not phases:
        raise CheckpointError(f"{checkpoint}: has no tables")
    if wanted is None and len(phases) == 1:
        return phases[0]
    if wanted not in phases:
        raise ConfigError([f"--phase: expected one of {', '.join(phases)}, got {wanted or 'none'}"])
    return wanted
