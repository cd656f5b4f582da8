"""Options of clusters whose hosts are given by name, and where mpirun starts the processes."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from fleetrec.config.options import Options


def _words(value: Any) -> Any:
    return shlex.split(value) if isinstance(value, str) else value


OneLine = Annotated[str, Field(pattern=r"^[^\n]+$")]
Word = Annotated[str, Field(pattern=r"^\S+$")]
Arguments = Annotated[tuple[OneLine, ...], BeforeValidator(_words)]
Port = Annotated[int, Field(ge=1024, le=65000)]


class MpiOptions(Options):
    """Hosts, and how Open MPI reaches them.

    ``hosts`` are entries ``name`` or ``name:slots``, ``hostfile`` is a file as mpirun reads it;
    without both, everything runs on this machine. The slots of a host limit its workers; servers
    are spread evenly. ``remote_shell`` starts a command on a host in place of ssh. Processes
    communicate over ``interface``; without it, over the route to the other hosts. Servers listen
    on ``port`` and the ports that follow; without it, the job's id decides. If a
    host does not answer for ``host_timeout`` seconds, the job ends. ``arguments`` are passed to
    mpirun.
    """

    hosts: Arguments = ()
    hostfile: Path | None = None
    remote_shell: OneLine | None = None
    interface: Word | None = None
    port: Port | None = None
    host_timeout: Annotated[int, Field(ge=10)] = 300
    arguments: Arguments = ()
    mpirun: Word = "mpirun"
    max_restarts: Annotated[int, Field(ge=0)] = 3

    @model_validator(mode="after")
    def _one_list_of_hosts(self) -> Self:
        if self.hosts and self.hostfile is not None:
            raise ValueError("expected hosts or hostfile, got both")
        return self
