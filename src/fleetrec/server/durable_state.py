"""The folder of a server: snapshots, and the journal of requests since the newest one."""

import contextlib
import errno
import fcntl
import json
import logging
import os
import shutil
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from fleetrec.checkpoint.publish import publish
from fleetrec.core.errors import CheckpointError, UnavailableError
from fleetrec.core.fault_points import fault_point
from fleetrec.server.journal import (
    Durability,
    JournalWriter,
    drop_segments,
    read_journal,
    segment_numbers,
)

logger = logging.getLogger(__name__)

STATE_FILE = "state.json"
CHECKSUMS_FILE = "sums.json"
DISK_RETRY_S = 1.0  # between two attempts on a full disk
_PREFIX = "snapshot-"


class Snapshot(Protocol):
    """What a server held at one moment."""

    def write(self, directory: Path) -> None:
        """Write it into a new folder."""

    def close(self) -> None:
        """Give it up; a ``write`` in another thread fails soon."""


class DurableState:
    """Snapshot plus journal from which a killed server recovers.

    Snapshot k covers the journal segments below k. They are deleted when it is published, so that
    at any moment the newest snapshot and the segments from its number on are the whole state.
    """

    def __init__(self, directory: Path, *, durability: Durability) -> None:
        self._directory = directory
        self._durability: Durability = durability
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(directory)
        for path in directory.glob(f".{_PREFIX}*"):  # left by a crash while saving
            shutil.rmtree(path)
        self._writer: JournalWriter | None = None
        self._saving: tuple[threading.Thread, Snapshot] | None = None
        self._snapshot_bytes = _size_of(self.newest_snapshot())

    def newest_snapshot(self) -> Path | None:
        """Return the folder of the newest snapshot."""
        found = self._snapshots()
        return found[-1] if found else None

    def read_state(self) -> dict[str, Any]:
        """Return the JSON state of the newest snapshot; raises CheckpointError if it is damaged."""
        newest = self.newest_snapshot()
        assert newest is not None
        _check_checksums(newest)
        state: dict[str, Any] = json.loads((newest / STATE_FILE).read_text(encoding="utf-8"))
        return state

    def records(self) -> Iterator[bytes]:
        """Yield the records since the newest snapshot, then open a new segment."""
        newest = self.newest_snapshot()
        numbers = segment_numbers(self._directory)
        first = _number(newest) if newest is not None else (numbers[0] if numbers else 1)
        yield from read_journal(self._directory, first=first)
        numbers = segment_numbers(self._directory)
        self._open_segment_when_disk_has_space(max([first - 1, *numbers]) + 1)

    @property
    def num_bytes(self) -> int:
        """Return the length of the current segment."""
        return self._journal.num_bytes

    @property
    def snapshot_bytes(self) -> int:
        """Return the size of the newest snapshot."""
        return self._snapshot_bytes

    def append(self, record: bytes) -> None:
        """Append a record to the journal; call this before its effect."""
        self._journal.append(record)

    @property
    def is_saving(self) -> bool:
        """Return whether a snapshot is being written in the background."""
        return self._saving is not None and self._saving[0].is_alive()

    def save_snapshot(self, snapshot: Snapshot, state: dict[str, Any]) -> None:
        """Publish a snapshot of the current state and delete the older journal."""
        self.cancel_snapshot()
        self._publish(snapshot, state, number=self._start_segment())

    def start_snapshot(self, snapshot: Snapshot, state: dict[str, Any]) -> None:
        """The same in the background: records are appended to a new segment at once.

        If the snapshot cannot be written, a warning is logged and the older journal stays.
        """
        assert not self.is_saving, "one snapshot at a time"
        number = self._start_segment()

        def run() -> None:
            try:
                self._publish(snapshot, state, number=number)
            except (OSError, RuntimeError) as error:  # such as a full disk, or no memory
                logger.warning("no snapshot could be written: %s; trying again later", error)
            finally:
                snapshot.close()

        thread = threading.Thread(target=run, name="snapshot")
        self._saving = (thread, snapshot)
        thread.start()

    def wait_for_snapshot(self) -> None:
        """Wait until no snapshot is being written."""
        if self._saving is not None:
            self._saving[0].join()

    def cancel_snapshot(self) -> None:
        """Stop writing a snapshot in the background; the older journal stays."""
        if self._saving is not None:
            self._saving[1].close()
            self.wait_for_snapshot()

    def _publish(self, snapshot: Snapshot, state: dict[str, Any], *, number: int) -> None:
        def fill(staging: Path) -> None:
            snapshot.write(staging)
            fault_point("snapshot")
            (staging / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")
            (staging / CHECKSUMS_FILE).write_text(json.dumps(_checksums(staging)), encoding="utf-8")

        publish(self._directory / f"{_PREFIX}{number:010d}", fill)
        fault_point("snapshot_published")
        self._snapshot_bytes = _size_of(self.newest_snapshot())
        self._delete_older(number)

    def close(self) -> None:
        """Close the journal and unlock the folder; a snapshot that is being written is given up."""
        self.cancel_snapshot()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        os.close(self._lock)

    @property
    def _journal(self) -> JournalWriter:
        assert self._writer is not None, "records() comes first"
        return self._writer

    def _open_segment_when_disk_has_space(self, number: int) -> None:
        """Retry while the disk is full: exiting would only use up restarts."""
        while True:
            try:
                self._open_segment(number)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                logger.warning("cannot serve yet: %s", error)
                time.sleep(DISK_RETRY_S)
            else:
                return

    def _open_segment(self, number: int) -> None:
        writer = JournalWriter(self._directory, number, durability=self._durability)
        if self._writer is not None:
            self._writer.close()
        self._writer = writer

    def _start_segment(self) -> int:
        number = self._journal.number + 1
        self._open_segment(number)
        return number

    def _delete_older(self, number: int) -> None:
        drop_segments(self._directory, before=number)
        for path in self._snapshots():
            if _number(path) < number:
                shutil.rmtree(path)

    def _snapshots(self) -> list[Path]:
        return sorted(self._directory.glob(f"{_PREFIX}*"))


@contextlib.contextmanager
def exit_on_partial_update() -> Iterator[None]:
    """Exit the process if the block fails, so that a partial update is never served.

    The request is in the journal: the restarted server applies it to the state before it.
    """
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if not is_done:
            logger.exception("an update failed; the server exits, to recover from its journal")
            os._exit(70)


def _size_of(snapshot: Path | None) -> int:
    if snapshot is None:
        return 0
    return sum(path.stat().st_size for path in snapshot.rglob("*") if path.is_file())


def _number(snapshot: Path) -> int:
    return int(snapshot.name.removeprefix(_PREFIX))


def _checksums(snapshot: Path) -> dict[str, int]:
    """Return the CRC-32 of every file except tables, which contain checksums."""
    files = [path for path in snapshot.iterdir() if path.is_file() and path.name != CHECKSUMS_FILE]
    return {path.name: zlib.crc32(path.read_bytes()) for path in sorted(files)}


def _check_checksums(snapshot: Path) -> None:
    try:
        expected: Any = json.loads((snapshot / CHECKSUMS_FILE).read_text(encoding="utf-8"))
        found = _checksums(snapshot)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{snapshot / CHECKSUMS_FILE}: damaged: {error}") from error
    if found != expected:
        listed = expected if isinstance(expected, dict) else {}
        wrong = [name for name, crc in found.items() if crc != listed.get(name)]
        raise CheckpointError(f"{snapshot}: damaged: {', '.join(wrong) or 'a file is missing'}")


def _lock(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise UnavailableError(
            f"{directory}: another server uses this folder; give every server its own"
        ) from error
    return descriptor
