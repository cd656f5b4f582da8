"""Who this process is: by the environment of a launcher, or by the program itself."""

import enum
from collections.abc import Sequence
from typing import Protocol

from fleetrec.core.env import read_place, read_worker_endpoints
from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers import paddle
from fleetrec.core.place import Place


class Role(enum.Enum):
    """What a process of a job does."""

    WORKER = "worker"
    SERVER = "server"


class RoleMaker(Protocol):
    """Knows the place of this process."""

    def place(self) -> Place:
        """Return the place of this process."""
        ...

    def worker_endpoints(self) -> tuple[str, ...]:
        """Return where workers listen, if the one who started them said so."""
        ...


class PaddleCloudRoleMaker:
    """Reads the environment of launch_ps, of PaddleCloud, or of another launcher."""

    def place(self) -> Place:
        """Return the place of this process; it needs servers."""
        place = read_place()
        if place is None:
            raise ConfigError([f"{paddle.ROLE}: not in the environment; {paddle.ADVICE}"])
        if not place.server_endpoints:
            raise ConfigError(
                [
                    f"{place.launcher} started {place.num_workers} workers without servers, which "
                    "Fleet programs need; start it with python -m fleetrec.launch_ps"
                ]
            )
        return place

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
        self._place = Place(
            role=role.value,
            rank=current_id,
            num_workers=worker_num or len(worker_endpoints),
            server_endpoints=tuple(server_endpoints),
        )

    def place(self) -> Place:
        """Return the place of this process."""
        return self._place

    def worker_endpoints(self) -> tuple[str, ...]:
        """Return where workers listen, if the program said so."""
        return self._worker_endpoints
