"""What a parameter-server job consists of, before anyone has started it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from fleetrec.core import env
from fleetrec.core.topology import Role


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """Processes that run the same command; which of them one is, it learns from its environment.

    ``log_name`` is how their logs begin: ``server`` for server.0, server.1, ....
    """

    name: Role
    replicas: int
    command: tuple[str, ...]
    log_name: str
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Servers, workers, and where each server listens and keeps what it holds."""

    servers: RoleSpec
    workers: RoleSpec
    endpoints: tuple[str, ...]
    state_dir: Path

    def __post_init__(self) -> None:
        if len(self.endpoints) != self.servers.replicas:
            raise ValueError(
                f"{self.servers.replicas} servers, but {len(self.endpoints)} endpoints"
            )

    def environment(self, role: RoleSpec, index: int) -> dict[str, str]:
        """Return what tells a process its part, as core.env reads it."""
        common = {
            env.ENDPOINTS: ",".join(self.endpoints),
            env.NUM_WORKERS: str(self.workers.replicas),
            **role.env,
        }
        if role.name == "worker":
            return {**common, env.ROLE: "TRAINER", env.WORKER_INDEX: str(index)}
        host, _, port = self.endpoints[index].rpartition(":")
        state = str(self.state_dir.resolve() / str(index))
        return {
            **common,
            env.ROLE: "PSERVER",
            env.HOST: host,
            env.PORT: port,
            env.STATE: state,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The processes of a job that one machine runs, by their indexes."""

    servers: tuple[int, ...]
    workers: tuple[int, ...]
    is_whole: bool  # no other machine has a part
