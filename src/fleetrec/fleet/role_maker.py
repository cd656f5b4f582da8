"""Who this process is: told by a launcher, or by the program itself."""

import enum
from collections.abc import Sequence
from typing import Protocol

from fleetrec.core.env import read_topology, read_worker_endpoints
from fleetrec.core.topology import Topology


class Role(enum.Enum):
    """What a process of a job does."""

    WORKER = "worker"
    SERVER = "server"


class RoleMaker(Protocol):
    """Knows the part of this process."""

    def topology(self) -> Topology:
        """Return the part of this process."""
        ...

    def worker_endpoints(self) -> tuple[str, ...]:
        """Return where workers listen, if the one who started them said so."""
        ...


class PaddleCloudRoleMaker:
    """Reads the environment that launch_ps, and other launchers of Paddle's kind, have set."""

    def topology(self) -> Topology:
        """Return the part of this process."""
        return read_topology()

    def worker_endpoints(self) -> tuple[str, ...]:
        """Return where workers listen, if the launcher said so."""
        return read_worker_endpoints()


class UserDefinedRoleMaker:
    """Takes the program's own word for it."""

    def __init__(
        self,
        *,
        current_id: int,
        role: Role,
        server_endpoints: Sequence[str],
        worker_num: int = 0,
        worker_endpoints: Sequence[str] = (),
    ) -> None:
        if not (worker_num or worker_endpoints):
            raise ValueError("UserDefinedRoleMaker: give worker_num or worker_endpoints")
        if worker_num and worker_endpoints and worker_num != len(worker_endpoints):
            raise ValueError(
                f"UserDefinedRoleMaker: worker_num is {worker_num}, but there are "
                f"{len(worker_endpoints)} worker_endpoints"
            )
        self._worker_endpoints = tuple(worker_endpoints)
        self._topology = Topology(
            role=role.value,
            index=current_id,
            num_workers=worker_num or len(worker_endpoints),
            num_servers=len(server_endpoints),
            server_endpoints=tuple(server_endpoints),
        )

    def topology(self) -> Topology:
        """Return the part of this process."""
        return self._topology

    def worker_endpoints(self) -> tuple[str, ...]:
        """Return where workers listen, if the program said so."""
        return self._worker_endpoints
