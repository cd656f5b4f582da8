"""Processes that make every step together, and how they talk to each other."""

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
from torch import Tensor, distributed
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from fleetrec.core.errors import LostRankError
from fleetrec.core.launchers.values import LOOPBACK
from fleetrec.core.place import Place
from fleetrec.parallel.roll_call import call_roll

Bytes = npt.NDArray[np.uint8]

Line = Literal["steps", "ahead"]

CHIEF = 0
# Whoever loses the others waits so long for a word from each, before it says who is missing.
GRACE_S = 5.0
# So long ranks wait for what one of them does alone: the chief saves, or one writes its files.
PATIENCE = datetime.timedelta(hours=2)


@dataclasses.dataclass(kw_only=True)
class Traffic:
    """What a rank has sent to others, and how long it was busy with that."""

    num_steps: int = 0
    num_bytes: int = 0
    seconds: float = 0.0


class Ranks:
    """The group that this process belongs to.

    Numbers and rows travel by the backend of the device; words and orders always by gloo. A rank
    that does not answer within ``timeout_s`` is named in the error of all others; for what one rank
    does alone, they have more patience.
    """

    def __init__(self, place: Place, *, device: torch.device, timeout_s: float) -> None:
        self.index = place.rank
        self.count = place.num_workers
        self.device = device
        self.traffic = Traffic()
        self.members: list[Any] = []  # one for each model that is trained
        self.wishes = self.is_agreed = False  # to stop: this rank, and some rank before a step
        self._timeout = datetime.timedelta(seconds=timeout_s)
        self._store, num_groups = call_roll(
            _open_store(place, timeout=self._timeout),
            index=self.index,
            count=self.count,
            timeout_s=timeout_s,
        )
        # Our launcher counts restarts; its ranks open a store anew. That of torchrun remains.
        self.num_groups_before = place.incarnation + num_groups
        with self._watched("start"):
            distributed.init_process_group(
                "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl",
                store=PrefixStore("ranks", self._store),
                rank=self.index,
                world_size=self.count,
                timeout=self._timeout,
            )
            # What one thread says must not cross what another one says.
            self._lines = {"steps": None, "ahead": distributed.new_group(timeout=self._timeout)}
            self._words = distributed.new_group(backend="gloo", timeout=self._timeout)
            self._orders = distributed.new_group(backend="gloo", timeout=PATIENCE)

    @property
    def is_chief(self) -> bool:
        """Whether this is the rank that loads and saves for all."""
        return self.index == CHIEF

    def sum(self, numbers: Sequence[int]) -> list[int]:
        """Return the sums of what all ranks bring."""
        total = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        with self._watched("agree"):
            distributed.all_reduce(total)
        return [int(number) for number in total.tolist()]

    def exchange(
        self, outgoing: Sequence[Bytes], sizes: Sequence[int], *, line: Line
    ) -> list[Bytes]:
        """Send a part to every rank; returns what they sent, which has these sizes."""
        begin = time.perf_counter()
        with self._watched("exchange rows"):
            incoming = self._all_to_all(outgoing, sizes, group=self._lines[line])
        self._count(outgoing, begin)
        return incoming

    def exchange_counts(
        self, counts: npt.NDArray[np.int64], *, line: Line
    ) -> npt.NDArray[np.int64]:
        """Send row i to rank i; returns a row from each."""
        begin = time.perf_counter()
        outgoing = [row.view(np.uint8) for row in np.ascontiguousarray(counts)]
        with self._watched("exchange counts"):
            sizes = [len(part) for part in outgoing]
            incoming = self._all_to_all(outgoing, sizes, group=self._lines[line])
        self._count(outgoing, begin)
        return np.stack([part.view(np.int64) for part in incoming])

    def gather(self, content: bytes) -> list[bytes]:
        """Meet; returns what all ranks bring, in their order."""
        return self._collect(content, [True] * self.count, group=self._words)

    def bring(self, content: bytes) -> list[bytes]:
        """Meet; the chief gets what all bring, the others nothing."""
        wanted = [index == CHIEF for index in range(self.count)]
        return self._collect(content, wanted, group=self._orders)

    def tell(self, content: bytes) -> None:
        """Tell all others, who ``hear``; the chief does."""
        with self._watched("tell"):
            self._broadcast(torch.tensor([len(content)]))
            self._broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8))

    def hear(self) -> bytes:
        """Return what the chief tells."""
        size = torch.zeros(1, dtype=torch.int64)
        with self._watched("hear"):
            self._broadcast(size)
            content = torch.empty(int(size), dtype=torch.uint8)
            self._broadcast(content)
        return content.numpy().tobytes()

    def close(self) -> None:
        """Leave the group, once all are about to."""
        if distributed.is_initialized():
            with self._watched("end"):
                distributed.barrier(group=self._words)
            distributed.destroy_process_group()

    def _collect(self, content: bytes, wanted: Sequence[bool], *, group: Any) -> list[bytes]:
        mine = np.frombuffer(content, np.uint8)
        nothing = np.zeros(0, np.uint8)
        with self._watched("meet"):
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
            distributed.all_gather(sizes, torch.tensor([len(content)]), group=group)
            incoming = self._all_to_all(
                [mine if is_wanted else nothing for is_wanted in wanted],
                [int(size) if wanted[self.index] else 0 for size in sizes],
                group=group,
            )
        return [part.tobytes() for part in incoming]

    def _all_to_all(
        self, outgoing: Sequence[Bytes], sizes: Sequence[int], *, group: Any
    ) -> list[Bytes]:
        is_wordy = group in (self._words, self._orders)
        device = torch.device("cpu") if is_wordy else self.device
        sent = torch.from_numpy(np.concatenate(outgoing)).to(device)
        received = torch.empty(sum(sizes), dtype=torch.uint8, device=device)
        distributed.all_to_all_single(
            received, sent, list(sizes), [len(part) for part in outgoing], group=group
        )
        return np.split(received.cpu().numpy(), np.cumsum(sizes)[:-1])

    def _broadcast(self, content: Tensor) -> None:
        """Send what the chief has; it waits for the others no longer than in a step."""
        if not len(content):
            return
        options = distributed.BroadcastOptions()
        options.rootRank, options.rootTensor = CHIEF, 0
        options.timeout = self._timeout if self.is_chief else PATIENCE
        self._orders.broadcast([content], options).wait()

    def _count(self, outgoing: Sequence[Bytes], begin: float) -> None:
        self.traffic.num_bytes += sum(map(len, outgoing)) - len(outgoing[self.index])
        self.traffic.seconds += time.perf_counter() - begin

    @contextlib.contextmanager
    def watched(self, doing: str) -> Iterator[None]:
        """Say of anything that fails for the loss of another rank, which one that is."""
        with self._watched(doing):
            yield

    @contextlib.contextmanager
    def _watched(self, doing: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if isinstance(error, distributed.DistError) or "gloo" in str(error).lower():
                raise self._lost(doing, error) from error
            raise

    def _lost(self, doing: str, error: RuntimeError) -> LostRankError:
        """Find out who is missing: the others get an error too, and say that they are there."""
        missing: list[int] = [CHIEF]
        with contextlib.suppress(RuntimeError):  # the store has gone with the chief
            self._store.set(f"left/{self.index}", "")
            if distributed.is_initialized():
                distributed.destroy_process_group()  # so that the others notice
            deadline = time.monotonic() + GRACE_S
            while time.monotonic() < deadline:
                missing = [i for i in range(self.count) if not self._store.check([f"left/{i}"])]
                if not missing:
                    break
                time.sleep(0.05)
        reason = str(error).splitlines()[0].rpartition("] ")[2].partition(". ")[0]
        if not missing:
            return LostRankError(f"the {self.count} ranks lost each other ({doing}): {reason}")
        seconds = self._timeout.total_seconds()
        return LostRankError(
            f"rank {', '.join(map(str, missing))} of {self.count} took no part in: {doing}. It is "
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
