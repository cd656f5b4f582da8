"""Where workers meet: each brings some bytes, and gets those of all."""

import base64
from typing import Any

KEPT_NUMBERS = 2


class Gathers:
    """Contributions by occasion and worker; the first of each counts, so asking again is safe.

    An occasion is a number that rises with time, and a name. Those long over are forgotten: a
    worker that was restarted goes back by one number at most. Number 0 is never forgotten.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._contributions: dict[tuple[int, str], dict[int, bytes]] = {}

    def has(self, number: int, name: str, worker: int) -> bool:
        """Tell whether a worker has found its part."""
        return worker in self._contributions.get((number, name), {})

    def contribution(self, number: int, name: str, worker: int) -> bytes:
        """Return what a worker has found; nothing if it has not come."""
        return self._contributions.get((number, name), {}).get(worker, b"")

    def add(self, number: int, name: str, worker: int, content: bytes) -> None:
        """Add the part of a worker."""
        self._contributions.setdefault((number, name), {}).setdefault(worker, content)
        for key in [key for key in self._contributions if 0 < key[0] <= number - KEPT_NUMBERS]:
            del self._contributions[key]

    def missing(self, number: int, name: str) -> list[int]:
        """Return the workers that have not come."""
        found = self._contributions.get((number, name), {})
        return [worker for worker in range(self._num_workers) if worker not in found]

    def result(self, number: int, name: str) -> list[bytes]:
        """Return what all have found, in the order of workers."""
        found = self._contributions[number, name]
        return [found[worker] for worker in range(self._num_workers)]

    def to_plain(self) -> list[Any]:
        """Return what outlives the process."""
        return [
            [number, name, worker, base64.b64encode(content).decode()]
            for (number, name), found in self._contributions.items()
            for worker, content in found.items()
        ]

    def load(self, plain: list[Any]) -> None:
        """Take up what ``to_plain`` returned."""
        for number, name, worker, content in plain:
            self.add(number, name, worker, base64.b64decode(content))
