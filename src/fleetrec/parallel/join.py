"""Join the processes of a run: the one place that chooses a group."""

import dataclasses
from collections.abc import Callable

from fleetrec.config.job import ClusterOptions, RunOptions
from fleetrec.core.env import read_authority, read_token
from fleetrec.core.place import Place
from fleetrec.parallel.device import resolve_device
from fleetrec.parallel.group import Group
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.parallel.rank_group import RankGroup
from fleetrec.parallel.solo import SoloGroup
from fleetrec.parallel.worker_group import WorkerGroup
from fleetrec.server.client import ClientOptions


def join_group(
    run: RunOptions,
    place: Place | None,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> Group:
    """Return the group of this process; without a place it is on its own."""
    if place is None or place.is_only_process:
        return SoloGroup(resolve_device(run.device))
    if not place.server_endpoints:
        device = resolve_device(run.device, local_index=place.local_rank)
        comm = RankComm(place, device=device, timeout_s=run.cluster.rank_timeout_s)
        return RankGroup(comm, run.cluster)
    return WorkerGroup(
        place,
        run.cluster,
        device=resolve_device(run.device),
        client=dataclasses.replace(client_options(run.cluster), should_stop=should_stop),
    )


def client_options(options: ClusterOptions) -> ClientOptions:
    """Return timeouts and credentials of a worker."""
    communicator = options.communicator
    return ClientOptions(
        token=read_token(),
        authority=read_authority(),
        deadline_s=communicator.rpc_deadline_s,
        num_threads=communicator.thread_pool_size,
    )
