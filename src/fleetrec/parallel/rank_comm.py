"""Communication between ranks: collectives over torch.distributed, with named errors."""

import contextlib
import dataclasses
import datetime
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import distributed
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from fleetrec.core.errors import LostRankError
from fleetrec.core.launchers.values import LOOPBACK
from fleetrec.core.place import Place
from fleetrec.parallel.rendezvous import rendezvous

Bytes = npt.NDArray[np.uint8]

Channel = Literal["steps", "prefetch"]

CHIEF = 0
PEER_REPORT_S = 5.0  # a rank that lost its peers waits this long for each to report itself
SOLO_TIMEOUT = datetime.timedelta(hours=2)  # while a rank works alone: it writes its files


@dataclasses.dataclass(kw_only=True)
class Traffic:
    """What a rank has sent to its peers, and the time that took."""

    num_steps: int = 0
    num_bytes: int = 0
    seconds: float = 0.0


class RankComm:
    """The process group of this rank.

    Tensors use the backend of the device; control messages use gloo. A rank that does not answer
    within ``timeout_s`` is named in the error of all others; ``wait=True`` allows much longer, for
    peers that wait while one rank writes or exports. ``gather_saved`` and ``broadcast_saved`` have
    their own channel: they may be called by a thread that saves while another one trains.
    """

    def __init__(self, place: Place, *, device: torch.device, timeout_s: float) -> None:
        self.rank = place.rank
        self.size = place.num_workers
        self.device = device
        self.traffic = Traffic()
        self._timeout = datetime.timedelta(seconds=timeout_s)
        self._store, num_groups = rendezvous(
            _open_store(place, timeout=self._timeout),
            index=self.rank,
            count=self.size,
            timeout_s=timeout_s,
        )
        # Our launcher counts restarts, and its ranks open a new store; that of torchrun remains.
        self.num_restarts = place.incarnation + num_groups
        with self.naming_lost_ranks("start"):
            distributed.init_process_group(
                "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl",
                store=PrefixStore("ranks", self._store),
                rank=self.rank,
                world_size=self.size,
                timeout=self._timeout,
            )
            # Collectives of different threads must not share a channel.
            self._channels = {
                "steps": None,
                "prefetch": distributed.new_group(timeout=self._timeout),
            }
            self._cpu_group = distributed.new_group(backend="gloo", timeout=self._timeout)
            self._patient_group = distributed.new_group(backend="gloo", timeout=SOLO_TIMEOUT)
            self._save_group = distributed.new_group(backend="gloo", timeout=SOLO_TIMEOUT)

    @property
    def is_chief(self) -> bool:
        """Return whether this is the rank that publishes for all."""
        return self.rank == CHIEF

    def all_reduce_sum(self, numbers: Sequence[float], *, dtype: torch.dtype) -> list[float]:
        """Return the sums over all ranks."""
        total = torch.tensor(numbers, dtype=dtype, device=self.device)
        with self.naming_lost_ranks("reduce"):
            distributed.all_reduce(total)
        return list(total.tolist())

    def all_to_all(
        self, outgoing: Sequence[Bytes], sizes: Sequence[int], *, channel: Channel
    ) -> list[Bytes]:
        """Send a part to every rank; returns what they sent, which has these sizes."""
        begin = time.perf_counter()
        with self.naming_lost_ranks("exchange rows"):
            incoming = self._all_to_all(outgoing, sizes, group=self._channels[channel])
        self._count(outgoing, begin)
        return incoming

    def exchange_counts(
        self, counts: npt.NDArray[np.int64], *, channel: Channel
    ) -> npt.NDArray[np.int64]:
        """Send row i to rank i; returns a row from each."""
        begin = time.perf_counter()
        outgoing = [row.view(np.uint8) for row in np.ascontiguousarray(counts)]
        with self.naming_lost_ranks("exchange counts"):
            sizes = [len(part) for part in outgoing]
            incoming = self._all_to_all(outgoing, sizes, group=self._channels[channel])
        self._count(outgoing, begin)
        return np.stack([part.view(np.int64) for part in incoming])

    def all_gather(self, content: bytes, *, wait: bool = False) -> list[bytes]:
        """Return the contents of all ranks, in rank order."""
        group = self._patient_group if wait else self._cpu_group
        return self._gather(content, [True] * self.size, group=group)

    def broadcast(self, content: bytes, *, wait: bool = False) -> bytes:
        """Return the content of the chief."""
        return self._broadcast(content, group=self._patient_group if wait else self._cpu_group)

    def gather_to_chief(self, content: bytes) -> list[bytes]:
        """Return the contents of all ranks on the chief, and empty ones elsewhere."""
        return self._gather(content, self._only_chief(), group=self._patient_group)

    def gather_saved(self, content: bytes) -> list[bytes]:
        """The same, by the thread that saves."""
        return self._gather(content, self._only_chief(), group=self._save_group)

    def broadcast_saved(self, content: bytes) -> bytes:
        """Return the content of the chief, however long it takes to write files."""
        return self._broadcast(content, group=self._save_group)

    def close(self) -> None:
        """Leave the group, once all are about to."""
        if distributed.is_initialized():
            with self.naming_lost_ranks("end"):
                distributed.barrier(group=self._cpu_group)
            distributed.destroy_process_group()

    def _only_chief(self) -> list[bool]:
        return [rank == CHIEF for rank in range(self.size)]

    def _gather(self, content: bytes, wanted: Sequence[bool], *, group: Any) -> list[bytes]:
        mine = np.frombuffer(content, np.uint8)
        nothing = np.zeros(0, np.uint8)
        with self.naming_lost_ranks("gather"):
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
            distributed.all_gather(sizes, torch.tensor([len(content)]), group=group)
            incoming = self._all_to_all(
                [mine if is_wanted else nothing for is_wanted in wanted],
                [int(size) if wanted[self.rank] else 0 for size in sizes],
                group=group,
            )
        return [part.tobytes() for part in incoming]

    def _broadcast(self, content: bytes, *, group: Any) -> bytes:
        size = torch.tensor([len(content)])
        with self.naming_lost_ranks("broadcast"):
            distributed.broadcast(size, CHIEF, group=group)
            buffer = torch.empty(int(size), dtype=torch.uint8)
            if self.is_chief:
                buffer = torch.frombuffer(bytearray(content or b"-"), dtype=torch.uint8)[
                    : int(size)
                ]
            if len(buffer):
                distributed.broadcast(buffer, CHIEF, group=group)
        return buffer.numpy().tobytes()

    def _all_to_all(
        self, outgoing: Sequence[Bytes], sizes: Sequence[int], *, group: Any
    ) -> list[Bytes]:
        is_cpu = group in (self._cpu_group, self._patient_group, self._save_group)
        device = torch.device("cpu") if is_cpu else self.device
        sent = torch.from_numpy(np.concatenate(outgoing)).to(device)
        received = torch.empty(sum(sizes), dtype=torch.uint8, device=device)
        distributed.all_to_all_single(
            received, sent, list(sizes), [len(part) for part in outgoing], group=group
        )
        return np.split(received.cpu().numpy(), np.cumsum(sizes)[:-1])

    def _count(self, outgoing: Sequence[Bytes], begin: float) -> None:
        self.traffic.num_bytes += sum(map(len, outgoing)) - len(outgoing[self.rank])
        self.traffic.seconds += time.perf_counter() - begin

    @contextlib.contextmanager
    def naming_lost_ranks(self, doing: str) -> Iterator[None]:
        """Turn an error of torch.distributed into one that names the ranks that are missing."""
        try:
            yield
        except RuntimeError as error:
            if isinstance(error, distributed.DistError) or "gloo" in str(error).lower():
                raise self._lost_rank_error(doing, error) from error
            raise

    def _lost_rank_error(self, doing: str, error: RuntimeError) -> LostRankError:
        """Find out which ranks are missing: the others get an error too, and report themselves."""
        missing: list[int] = [CHIEF]
        with contextlib.suppress(RuntimeError):  # the store has gone with the chief
            self._store.set(f"left/{self.rank}", "")
            if distributed.is_initialized():
                distributed.destroy_process_group()  # so that the others notice
            deadline = time.monotonic() + PEER_REPORT_S
            while time.monotonic() < deadline:
                missing = [i for i in range(self.size) if not self._store.check([f"left/{i}"])]
                if not missing:
                    break
                time.sleep(0.05)
        reason = str(error).splitlines()[0].rpartition("] ")[2].partition(". ")[0]
        if not missing:
            return LostRankError(f"the {self.size} ranks lost each other ({doing}): {reason}")
        seconds = self._timeout.total_seconds()
        return LostRankError(
            f"rank {', '.join(map(str, missing))} of {self.size} took no part in: {doing}. It is "
            f"dead, stuck, or slower than {seconds:g} s (rank_timeout); see its log ({reason})"
        )


def _open_store(place: Place, *, timeout: datetime.timedelta) -> Store:
    """Return the store at which ranks find each other; the first may have to open it."""
    assert place.store is not None
    host, _, port = place.store.rpartition(":")
    try:
        listener = _listen(host, int(port)) if place.is_store_host else None
        store = TCPStore(
            host,
            int(port),
            is_master=place.is_store_host,
            wait_for_workers=False,
            timeout=timeout,
            master_listen_fd=listener,
        )
        return PrefixStore(f"incarnation {place.incarnation}", store)
    except (distributed.DistError, OSError) as error:
        doing = "open" if place.is_store_host else "reach"
        raise LostRankError(
            f"rank {place.rank} of {place.num_workers} cannot {doing} the store of the ranks at "
            f"{place.store}: {str(error).splitlines()[0]}. Look whether rank 0 runs there, and "
            "whether MASTER_ADDR and MASTER_PORT name it"
        ) from error


def _listen(host: str, port: int) -> int | None:
    """Return a socket that only this machine reaches, where all ranks are on it."""
    if host != LOOPBACK:
        return None
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the launcher holds it
        listener.bind((host, port))
        return listener.detach()
