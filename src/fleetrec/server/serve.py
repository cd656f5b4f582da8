"""Runs a parameter server: recovery, endpoint, metrics page and status file."""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fleetrec._native import keep_freed_memory
from fleetrec.embedding.sharding import TableShard
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.server.durable_state import DurableState
from fleetrec.server.endpoint import Endpoint, Security
from fleetrec.server.journal import Durability
from fleetrec.server.prometheus import Metrics, MetricsPage
from fleetrec.server.service import Service
from fleetrec.server.service_options import ServiceOptions
from fleetrec.server.status_writer import StatusWriter

logger = logging.getLogger(__name__)


SNAPSHOT_BYTES = 1 << 28  # of journal, above which a snapshot replaces it
POLL_S = 0.2  # between two checks whether to stop


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Which server of a run this is, its address, and where it keeps its state."""

    index: int
    num_servers: int
    num_workers: int
    endpoint: str
    directory: Path
    initial: str | None = None  # checkpoint with the initial rows
    status: Path | None = None  # status file for the supervisor
    durability: Durability = "process"
    snapshot_bytes: int = SNAPSHOT_BYTES
    metrics_port: int | None = None
    security: Security = dataclasses.field(default_factory=Security)


@flushed_denormals()  # before the replay; threads inherit the mode
def serve(options: ServerOptions, *, is_stopped: threading.Event) -> None:
    """Recover the state, then serve until stopped or until all workers have finished."""
    keep_freed_memory()  # messages are large and of similar size
    durable = DurableState(options.directory, durability=options.durability)
    try:
        service = Service(
            durable,
            ServiceOptions(
                shard=TableShard(index=options.index, count=options.num_servers),
                num_workers=options.num_workers,
                initial=options.initial,
                snapshot_bytes=options.snapshot_bytes,
            ),
        )
        endpoint = Endpoint(
            service,
            options.endpoint,
            security=options.security,
            num_workers=options.num_workers,
        )
        status = None
        if options.status is not None:
            status = StatusWriter(
                options.status,
                num_calls=lambda: endpoint.traffic.num_calls,
                num_pending=service.num_pending,
                clock=time.monotonic,
            )
        with endpoint, metrics_page(options.metrics_port, service.metrics, endpoint):
            logger.info(
                "server %d of %d serves on %s",
                options.index,
                options.num_servers,
                options.endpoint,
            )
            while not (is_stopped.wait(POLL_S) or service.is_finished.is_set()):
                if status is not None:
                    status.write_if_due()
    finally:
        durable.close()


def metrics_page(
    port: int | None, metrics: Callable[[], Metrics], endpoint: Endpoint
) -> contextlib.AbstractContextManager[object]:
    """Return the metrics page of a server, if it has a port."""
    if port is None:
        return contextlib.nullcontext()
    return MetricsPage(port, lambda: {**metrics(), **endpoint.traffic.metrics()})
