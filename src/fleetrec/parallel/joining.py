"""From the options of a job to what a worker needs to join the others."""

from fleetrec.config.job import ClusterOptions
from fleetrec.core.env import read_token
from fleetrec.core.errors import UnavailableError
from fleetrec.core.topology import Topology
from fleetrec.parallel.server import Cluster
from fleetrec.server.client import ClientOptions
from fleetrec.server.spec import Mode


def cluster_of(topology: Topology, options: ClusterOptions) -> Cluster:
    """Return how a worker joins the others."""
    return Cluster(
        topology=topology, mode=mode_of(options), client=ClientOptions(token=read_token())
    )


def mode_of(options: ClusterOptions) -> Mode:
    """Return how servers treat pushes; raises UnavailableError if they can not.

    Our workers make one step at a time and wait until it is written down. In half_async, too, a
    worker waits for its own pushes only, which servers apply as they come.
    """
    if options.strategy == "sync":
        return "sync"
    if options.strategy in ("async", "half_async"):
        return "async"
    raise UnavailableError(
        f"distribute_strategy {options.strategy} is not available in this version; use sync, async "
        "or half_async"
    )
