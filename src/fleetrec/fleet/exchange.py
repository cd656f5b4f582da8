"""How samples get from worker to worker, for a shuffle over all of them."""

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence

from torch import distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from fleetrec.core.batch import Inputs
from fleetrec.core.errors import UnavailableError
from fleetrec.core.place import Place
from fleetrec.data.block import Block
from fleetrec.data.memory import Exchange
from fleetrec.parallel.sample_exchange import GroupExchange

Gather = Callable[[bytes], list[bytes]]


class SoloExchange:
    """The exchange of one worker with itself."""

    index = 0
    count = 1

    def all_to_all(self, blocks: Sequence[Block]) -> list[Block]:
        """Return the blocks."""
        return list(blocks)


@contextlib.contextmanager
def worker_exchange(place: Place, inputs: Inputs, gather: Gather) -> Iterator[Exchange]:
    """Connect all workers, which must all enter the block; they disconnect at its end."""
    if place.num_workers == 1:
        yield SoloExchange()
        return
    if distributed.is_initialized():
        raise UnavailableError("global_shuffle: the program has a process group of its own already")
    store = _rendezvous(place, gather)
    distributed.init_process_group(
        "gloo", store=store, rank=place.rank, world_size=place.num_workers
    )
    try:
        group = distributed.group.WORLD
        assert group is not None
        yield GroupExchange(group, inputs=inputs)
    finally:
        distributed.destroy_process_group()


def _rendezvous(place: Place, gather: Gather) -> TCPStore:
    """Connect all workers to a store of worker 0, whose address they gather through the servers."""
    if place.rank == 0:
        host = own_address(place.server_endpoints[0])
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        gather(f"{host}:{store.port}".encode())
        return store
    host, _, port = gather(b"-")[0].decode().rpartition(":")
    return TCPStore(host, int(port), is_master=False)


def own_address(endpoint: str) -> str:
    """Return the address that this machine has on the way to another."""
    host, _, port = endpoint.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing
        probe.connect((host, int(port)))
        return str(probe.getsockname()[0])
