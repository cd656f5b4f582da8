"""How fast something trains, in this process or in one of its own."""

import dataclasses
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

Train = Callable[[Path], int]  # on one file; returns the number of rows


@dataclasses.dataclass(frozen=True, slots=True)
class Speed:
    """Rows per second, and per CPU second of all threads."""

    wall: float
    cpu: float


def speed(train: Train, part: Path) -> Speed:
    """Train on a part and look at the clocks."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    num_rows = train(part)
    return Speed(
        wall=num_rows / (time.perf_counter() - wall_s), cpu=num_rows / (time.process_time() - cpu_s)
    )


class Apart:
    """Trains in a process of its own, whose memory and threads are as torch and libc make them."""

    def __init__(self, make: Callable[[], Train]) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make), daemon=True)
        self._process.start()
        theirs.close()

    def speed(self, part: Path) -> Speed:
        """Train there on a part; nothing happens here meanwhile."""
        self._ours.send(part)
        found = self._ours.recv()
        assert isinstance(found, Speed)
        return found

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._process.join()


def _serve(conversation: Connection, make: Callable[[], Train]) -> None:
    train = make()
    while True:
        try:
            part = conversation.recv()
        except EOFError:
            return
        conversation.send(speed(train, part))
