"""How many processes shall train together."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Workers and servers that were asked for, and who starts them.

    Without servers it is left open how many there are, if there must be any. If not ``is_local``,
    a launcher has started the processes already, on whatever machines. ``num_gpus`` are those that
    this machine has.
    """

    num_workers: int = 1
    num_servers: int | None = None
    is_local: bool = True
    num_gpus: int = 0
