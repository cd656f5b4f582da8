"""Options of a service, and the gathers with a fixed name."""

import dataclasses

from fleetrec.embedding.sharding import TableShard

START = "start"  # the gather before the first step, after the chief has loaded
FINISHED = "finished"  # workers contribute to it when they have finished, without waiting
WAIT_TIMEOUT_S = 5.0  # of a request for other workers, until it is answered with WAIT


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Which shard a service holds, of which run, and when it writes snapshots."""

    shard: TableShard
    num_workers: int
    initial: str | None = None  # checkpoint with the initial rows
    snapshot_bytes: int = 1 << 28  # of journal, above which a snapshot replaces it
    wait_timeout_s: float = WAIT_TIMEOUT_S
