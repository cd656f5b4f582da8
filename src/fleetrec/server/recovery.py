"""The folder of a server: snapshots of what it holds, and the journal behind them."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fleetrec.checkpoint.publish import publish
from fleetrec.core.errors import UnavailableError
from fleetrec.server.journal import (
    Durability,
    JournalWriter,
    drop_segments,
    read_journal,
    segment_numbers,
)

STATE_FILE = "state.json"
_PREFIX = "snapshot-"


class Memory:
    """Everything by which a server that was killed goes on exactly where it was.

    A snapshot with number k holds all that the files of the journal below k say.
    """

    def __init__(self, directory: Path, *, durability: Durability) -> None:
        self._directory = directory
        self._durability: Durability = durability
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(directory)
        for path in directory.glob(f".{_PREFIX}*"):  # what a death in the middle of save left
            shutil.rmtree(path)
        self._writer: JournalWriter | None = None
        self._snapshot_bytes = _size_of(self.snapshot())

    def snapshot(self) -> Path | None:
        """Return the folder of the newest snapshot."""
        found = self._snapshots()
        return found[-1] if found else None

    def state(self) -> dict[str, Any]:
        """Return what the newest snapshot says beside tables and tensors."""
        newest = self.snapshot()
        assert newest is not None
        state: dict[str, Any] = json.loads((newest / STATE_FILE).read_text(encoding="utf-8"))
        return state

    def records(self) -> Iterator[bytes]:
        """Yield what was journalled since the newest snapshot, and make ready for more."""
        newest = self.snapshot()
        numbers = segment_numbers(self._directory)
        first = _number(newest) if newest is not None else (numbers[0] if numbers else 1)
        yield from read_journal(self._directory, first=first)
        numbers = segment_numbers(self._directory)
        self._begin(max([first - 1, *numbers]) + 1)

    @property
    def num_bytes(self) -> int:
        """Return how long the journal has become since the newest snapshot, roughly."""
        return self._journal.num_bytes

    @property
    def snapshot_bytes(self) -> int:
        """Return how large the newest snapshot is."""
        return self._snapshot_bytes

    def append(self, record: bytes) -> None:
        """Write down a record before it is acted upon."""
        self._journal.append(record)

    def save(self, write: Callable[[Path], None], state: dict[str, Any]) -> None:
        """Publish a snapshot of all up to now, and forget the journal before it."""
        number = self._journal.number + 1
        self._begin(number)

        def fill(staging: Path) -> None:
            write(staging)
            (staging / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")

        publish(self._directory / f"{_PREFIX}{number:010d}", fill)
        self._snapshot_bytes = _size_of(self.snapshot())
        self._sweep(number)

    def close(self) -> None:
        """Close the journal and let others have the folder."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        os.close(self._lock)

    @property
    def _journal(self) -> JournalWriter:
        assert self._writer is not None, "records() comes first"
        return self._writer

    def _begin(self, number: int) -> None:
        writer = JournalWriter(self._directory, number, durability=self._durability)
        if self._writer is not None:
            self._writer.close()
        self._writer = writer

    def _sweep(self, number: int) -> None:
        drop_segments(self._directory, before=number)
        for path in self._snapshots():
            if _number(path) < number:
                shutil.rmtree(path)

    def _snapshots(self) -> list[Path]:
        return sorted(self._directory.glob(f"{_PREFIX}*"))


def _size_of(snapshot: Path | None) -> int:
    if snapshot is None:
        return 0
    return sum(path.stat().st_size for path in snapshot.rglob("*") if path.is_file())


def _number(snapshot: Path) -> int:
    return int(snapshot.name.removeprefix(_PREFIX))


def _lock(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise UnavailableError(
            f"{directory}: another server uses this folder; give each a folder of its own"
        ) from error
    return descriptor
