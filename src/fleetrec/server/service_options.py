"""How a server keeps what it holds, and the meetings that it knows by name."""

import dataclasses

from fleetrec.embedding.sharding import TableShard

START = "start"  # the meeting before the first step, once the chief has loaded what there is
FINISHED = "finished"  # a meeting that nobody waits for
WAIT_TIMEOUT_S = 5.0  # that a request may wait for others before it is told for whom


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How a server keeps what it holds."""

    shard: TableShard
    num_workers: int
    initial: str | None = None  # a checkpoint with whose rows a new server begins
    snapshot_bytes: int = 1 << 28  # of journal, after which a snapshot replaces it
    wait_timeout_s: float = WAIT_TIMEOUT_S
