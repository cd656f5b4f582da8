"""Which process of a job this is, and where its servers are."""

import dataclasses
from typing import Literal

Role = Literal["worker", "server"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The part of one process: number ``index`` of those with the same role."""

    role: Role
    index: int
    num_workers: int
    num_servers: int
    server_endpoints: tuple[str, ...]  # host:port, in the order of the servers

    def __post_init__(self) -> None:
        count = self.num_workers if self.role == "worker" else self.num_servers
        if not 0 <= self.index < count:
            raise ValueError(f"{self.role} {self.index} of {count} does not exist")
        if len(self.server_endpoints) != self.num_servers:
            raise ValueError(
                f"{self.num_servers} servers, but {len(self.server_endpoints)} endpoints"
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """Which of several ranks a process is, as torchrun tells it.

    ``local_index`` counts on its machine. ``store`` is where ranks find each other; the first of
    them may have to open it (``hosts_store``). Our own launcher may look after them
    (``has_supervisor``).
    """

    index: int
    count: int
    local_index: int = 0
    store: str
    hosts_store: bool = False
    has_supervisor: bool = False
