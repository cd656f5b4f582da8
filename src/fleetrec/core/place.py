"""The role and rank of a process in its job."""

import dataclasses
from typing import Literal

Role = Literal["worker", "server"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The role and rank of one process, and how it finds the others.

    Workers either push to parameter servers (``server_endpoints``), or are ranks that make every
    step together and rendezvous at ``store``; ``is_store_host`` is the rank that opens it.
    ``incarnation`` counts how often a launcher has restarted all ranks. With ``is_supervised``
    the process that started this one prepares the run folder, writes the report and stops the
    servers. Training data below ``own_data`` is of this worker alone; of other data each reads its
    part. ``launcher`` is a name for messages.
    """

    role: Role = "worker"
    rank: int = 0
    num_workers: int = 1
    local_rank: int = 0
    server_endpoints: tuple[str, ...] = ()  # host:port, in the order of the servers
    store: str | None = None  # host:port
    is_store_host: bool = False
    incarnation: int = 0
    is_supervised: bool = False
    own_data: str | None = None
    launcher: str = "fleetrec"

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"{self.role} {self.rank} of {self.size} does not exist")
        if self.server_endpoints and self.store is not None:
            raise ValueError("workers of servers have no store")
        if min(self.local_rank, self.incarnation) < 0:
            raise ValueError("local_rank and incarnation count from 0")

    @property
    def num_servers(self) -> int:
        """Parameter servers of the job; 0 if its workers are ranks."""
        return len(self.server_endpoints)

    @property
    def size(self) -> int:
        """Processes of this role."""
        return self.num_workers if self.role == "worker" else self.num_servers

    @property
    def is_only_process(self) -> bool:
        """Whether the job is this process and no other."""
        return self.num_workers == 1 and not self.server_endpoints
