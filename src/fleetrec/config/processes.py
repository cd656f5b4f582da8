"""The number of processes of a run: as requested, or as started by a launcher."""

import dataclasses

from fleetrec.core.place import Place


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Workers and servers of a run.

    ``num_servers`` is None if servers were not specified; 0 means that there are none. If
    not ``is_local``, a launcher has started the processes already, on any machines.
    ``num_gpus`` are those of this machine.
    """

    num_workers: int = 1
    num_servers: int | None = None
    is_local: bool = True
    num_gpus: int = 0


def started_processes(place: Place) -> Processes:
    """Return the processes that a launcher has started."""
    return Processes(num_workers=place.num_workers, num_servers=place.num_servers, is_local=False)
