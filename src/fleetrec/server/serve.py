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
from fleetrec.server.served_models import ServedModels
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
    models = ServedModels(
        options.directory,
        open_state=lambda folder: DurableState(folder, durability=options.durability),
        open_service=lambda model, durable: Service(durable, _service_options(options, model)),
    )
    try:
        endpoint = Endpoint(
            models.service,
            options.endpoint,
            security=options.security,
            num_workers=options.num_workers,
        )
        status = None
        if options.status is not None:
            status = StatusWriter(
                options.status,
                num_calls=lambda: endpoint.traffic.num_calls,
                num_pending=models.num_pending,
                clock=time.monotonic,
            )
        with endpoint, metrics_page(options.metrics_port, models.metrics, endpoint):
            logger.info(
                "server %d of %d serves on %s",
                options.index,
                options.num_servers,
                options.endpoint,
            )
            while not (is_stopped.wait(POLL_S) or models.is_finished()):
                if status is not None:
                    status.write_if_due()
    finally:
        models.close()


def _service_options(options: ServerOptions, model: int) -> ServiceOptions:
    return ServiceOptions(
        shard=TableShard(index=options.index, count=options.num_servers),
        num_workers=options.num_workers,
        initial=options.initial if model == 0 else None,
        snapshot_bytes=options.snapshot_bytes,
    )


def metrics_page(
    port: int | None, metrics: Callable[[], Metrics], endpoint: Endpoint
) -> contextlib.AbstractContextManager[object]:
    """Return the metrics page of a server, if it has a port."""
    if port is None:
        return contextlib.nullcontext()
    return MetricsPage(port, lambda: {**metrics(), **endpoint.traffic.metrics()})
