"""Named all-gathers between workers."""

import base64
from typing import Any

KEPT_NUMBERS = 2  # a restarted worker repeats at most the gathers of the previous number


class Gathers:
    """Contributions by gather and worker; only the first one of a worker counts.

    A gather has a number, which rises from pass to pass, and a name. Old numbers are dropped,
    except number 0.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._contributions: dict[tuple[int, str], dict[int, bytes]] = {}

    def has(self, number: int, name: str, worker: int) -> bool:
        """Return whether a worker has contributed."""
        return worker in self._contributions.get((number, name), {})

    def contribution(self, number: int, name: str, worker: int) -> bytes:
        """Return a worker's contribution, or b"" if there is none."""
        return self._contributions.get((number, name), {}).get(worker, b"")

    def add(self, number: int, name: str, worker: int, content: bytes) -> None:
        """Add a worker's contribution."""
        self._contributions.setdefault((number, name), {}).setdefault(worker, content)
        for key in [key for key in self._contributions if 0 < key[0] <= number - KEPT_NUMBERS]:
            del self._contributions[key]

    def missing(self, number: int, name: str) -> list[int]:
        """Return the workers that have not contributed."""
        found = self._contributions.get((number, name), {})
        return [worker for worker in range(self._num_workers) if worker not in found]

    def result(self, number: int, name: str) -> list[bytes]:
        """Return all contributions in rank order."""
        found = self._contributions[number, name]
        return [found[worker] for worker in range(self._num_workers)]

    def to_plain(self) -> list[Any]:
        """Return the state for a snapshot."""
        return [
            [number, name, worker, base64.b64encode(content).decode()]
            for (number, name), found in self._contributions.items()
            for worker, content in found.items()
        ]

    def load(self, plain: list[Any]) -> None:
        """Load a state of ``to_plain``."""
        for number, name, worker, content in plain:
            self.add(number, name, worker, base64.b64decode(content))
