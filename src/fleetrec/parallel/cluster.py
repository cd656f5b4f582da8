"""What a worker needs to know to join servers and other workers."""

import dataclasses
from pathlib import Path
from typing import Literal

from fleetrec.config.job import ClusterOptions, CommunicatorOptions
from fleetrec.core.place import Place
from fleetrec.server.client import ClientOptions

Wanted = Literal["sync", "async", "half_async", "geo"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a worker needs to know to join the others."""

    place: Place
    mode: Wanted
    client: ClientOptions = dataclasses.field(default_factory=ClientOptions)
    communicator: CommunicatorOptions = dataclasses.field(default_factory=CommunicatorOptions)
    geo_push_steps: int = 100


def join_cluster(
    options: ClusterOptions,
    place: Place,
    *,
    token: str | None,
    authority: Path | None = None,
) -> Cluster:
    """Return what a worker of a job needs to know to join the others."""
    communicator = options.communicator
    return Cluster(
        place=place,
        mode=options.strategy,
        client=ClientOptions(
            token=token,
            authority=authority,
            deadline_s=communicator.rpc_deadline_s,
            num_threads=communicator.thread_pool_size,
        ),
        communicator=communicator,
        geo_push_steps=options.geo_push_steps,
    )
