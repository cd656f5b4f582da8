"""What a job consists of, before anything is started, and the contract of launchers."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

SERVER = "server"
WORKER = "worker"
RANK_MACRO = "${rank}"  # in values of RoleSpec.env: the number of the replica

INTERRUPTED = 130
SECRETS = ("TOKEN", "SECRET", "PASSWORD", "KEY")

Restart = Literal["each", "all", "never"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a replica needs; cluster engines reserve it.

    On the local machine nothing is reserved; ``cpus`` is the number of threads of a replica.
    """

    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """Replicas of one command; each reads its place from its environment.

    ``restart`` says what happens when a replica is killed: ``each`` restarts this replica, ``all``
    restarts all replicas of the role, ``never`` stops the job. A replica listens on ``num_ports``
    ports. The logs of a role are ``<log_name>.0``, ``<log_name>.1``, ...
    """

    name: str
    replicas: int
    command: tuple[str, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    resources: Resources = Resources()
    num_ports: int = 0
    restart: Restart = "each"
    log_name: str = ""

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ValueError(f"role {self.name}: expected at least 1 replica, got {self.replicas}")
        if not self.command:
            raise ValueError(f"role {self.name}: the command is empty")

    def log(self, index: int) -> str:
        """Return the file name of a replica's log."""
        return f"{self.log_name or self.name}.{index}"

    def environment(self, index: int) -> dict[str, str]:
        """Return the variables of one replica."""
        return {name: value.replace(RANK_MACRO, str(index)) for name, value in self.env.items()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The roles of a job: ``worker``, and ``server`` if the workers push to servers.

    Workers without servers are ranks. The job has finished when all its workers have.
    """

    name: str
    roles: tuple[RoleSpec, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [role.name for role in self.roles]
        if sorted(names) not in ([WORKER], [SERVER, WORKER]):
            raise ValueError(f"expected the role worker, or worker and server, got {names}")

    @property
    def workers(self) -> RoleSpec:
        """The role that trains."""
        return next(role for role in self.roles if role.name == WORKER)

    @property
    def servers(self) -> RoleSpec | None:
        """The role that holds parameters, if there is one."""
        return next((role for role in self.roles if role.name == SERVER), None)

    def describe(self) -> dict[str, Any]:
        """Return the job as plain data, without the values of secrets."""
        return {
            "name": self.name,
            "env": _without_secrets(self.env),
            "roles": [
                {
                    "name": role.name,
                    "replicas": role.replicas,
                    "command": list(role.command),
                    "env": _without_secrets(role.env),
                    "resources": dataclasses.asdict(role.resources),
                    "num_ports": role.num_ports,
                    "restart": role.restart,
                }
                for role in self.roles
            ],
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended; status 0 is success. A failure names a log, with its last lines."""

    status: int
    failed: str = ""
    log: Path | None = None
    tail: Sequence[str] = ()

    @property
    def was_stopped(self) -> bool:
        """Whether the job ended because it was asked to."""
        return self.status == INTERRUPTED and self.log is None


class RunningJob(Protocol):
    """A job that was started."""

    def poll(self) -> Outcome | None:
        """Do what is due, such as restarts; return the outcome once the job has ended."""
        ...

    def stop(self) -> None:
        """Ask the job to save itself and end; ``poll`` returns the outcome when it has."""
        ...

    def logs(self) -> list[Path]:
        """Return the logs of all replicas that this launcher can see."""
        ...

    def close(self) -> None:
        """Release what the launcher holds; what still runs on this machine is killed."""
        ...


class Launcher(Protocol):
    """Starts jobs with one engine."""

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the files that describe the job to the engine; returns them."""
        ...

    def start(self, job: JobSpec, folder: Path) -> RunningJob:
        """Start the job; logs and other files go to ``folder``."""
        ...


def is_secret(name: str) -> bool:
    """Return True if the value of a variable must not be shown."""
    return any(word in name.upper() for word in SECRETS)


def _without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    return {name: "***" if is_secret(name) else value for name, value in env.items()}
