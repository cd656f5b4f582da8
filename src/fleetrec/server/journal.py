"""Write-ahead log of acknowledged requests.

A journal is a folder of numbered segment files; docs/formats/server-journal.md has the format.
"""

import dataclasses
import logging
import os
import struct
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from fleetrec.core.errors import FleetRecError
from fleetrec.server.wire import MAGIC as RECORD_MAGIC
from fleetrec.server.wire import MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES

logger = logging.getLogger(__name__)

Durability = Literal["process", "disk"]

MAGIC = b"FRJOURN1"
_FRAME = struct.Struct("<II")  # length and CRC-32 of the record
_SUFFIX = ".journal"


class JournalError(FleetRecError):
    """A journal is damaged, not merely torn at its end."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TornTail:
    """An incomplete record at the end of the last segment."""

    path: Path
    offset: int


class JournalWriter:
    """Appends records to one segment of a journal."""

    def __init__(self, directory: Path, number: int, *, durability: Durability) -> None:
        self.number = number
        self._durability = durability
        self._path = segment_path(directory, number)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._offset = 0
        self._is_broken = False
        try:
            self._write(MAGIC)
            if durability == "disk":
                sync_directory(directory)
        except OSError:  # such as a full disk: the next attempt needs the name
            self.close()
            self._path.unlink()
            raise

    @property
    def num_bytes(self) -> int:
        """Return the length of the segment."""
        return self._offset

    def append(self, record: bytes) -> None:
        """Append a record; on OSError the segment is unchanged."""
        self._write(_FRAME.pack(len(record), zlib.crc32(record)), record)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, *parts: bytes) -> None:
        if self._is_broken:
            raise OSError(f"{self._path}: broken by a failed write; restart the server")
        try:
            for part in parts:  # joining them would copy
                view = memoryview(part)
                while view:
                    view = view[os.write(self._file, view) :]
        except OSError:
            self._rewind()
            raise
        if self._durability == "disk":
            self._is_broken = True  # after a failed fdatasync, pages may be lost
            os.fdatasync(self._file)
            self._is_broken = False
        self._offset += sum(map(len, parts))

    def _rewind(self) -> None:
        self._is_broken = True
        os.ftruncate(self._file, self._offset)
        os.lseek(self._file, self._offset, os.SEEK_SET)
        self._is_broken = False


def segment_path(directory: Path, number: int) -> Path:
    """Return the file of a segment."""
    return directory / f"{number:010d}{_SUFFIX}"


def segment_numbers(directory: Path) -> list[int]:
    """Return the numbers of all segments in rising order."""
    return sorted(int(path.name.removesuffix(_SUFFIX)) for path in directory.glob(f"*{_SUFFIX}"))


def drop_segments(directory: Path, *, before: int) -> None:
    """Delete the segments below ``before``, oldest first."""
    for number in segment_numbers(directory):
        if number < before:
            segment_path(directory, number).unlink()


def read_journal(directory: Path, *, first: int) -> Iterator[bytes]:
    """Yield all records from segment ``first`` on; truncates a torn tail of the last one."""
    numbers = [number for number in segment_numbers(directory) if number >= first]
    if numbers != list(range(first, first + len(numbers))):
        missing = min(set(range(first, numbers[-1])) - set(numbers))
        raise JournalError(f"{directory}: file {missing} of the journal is missing")
    for number in numbers:
        torn = yield from _records(segment_path(directory, number))
        if torn is None:
            continue
        if number != numbers[-1]:
            raise JournalError(
                f"{torn.path}: damaged at byte {torn.offset}, and another file follows"
            )
        _warn_of_tail(torn)
        os.truncate(torn.path, torn.offset)
        if torn.offset == 0:
            torn.path.unlink()


def _warn_of_tail(torn: TornTail) -> None:
    """Report what is dropped; zeros may be records that an operating system did not write."""
    with torn.path.open("rb") as stream:
        stream.seek(torn.offset)
        rest = stream.read()
    is_zero = bool(rest) and not any(rest)
    logger.warning(
        "%s: the last %d bytes are no complete record and are dropped%s",
        torn.path,
        len(rest),
        "; they are zeros, as after a power failure: without --durability disk, answered requests "
        "may be lost"
        if is_zero
        else "",
    )


def _records(path: Path) -> Generator[bytes, None, TornTail | None]:
    num_bytes = path.stat().st_size
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            if num_bytes < len(MAGIC):
                return TornTail(path=path, offset=0)
            raise JournalError(f"{path}: is not a journal of a server")
        while (offset := stream.tell()) < num_bytes:
            record = _read_record(stream, num_bytes - offset)
            if record is None:
                _check_nothing_follows(stream, path, offset)
                return TornTail(path=path, offset=offset)
            yield record
    return None


def _read_record(stream: BinaryIO, num_bytes_left: int) -> bytes | None:
    """Return the next record, or None if it is incomplete or damaged."""
    frame = stream.read(_FRAME.size)
    if len(frame) < _FRAME.size:
        return None
    length, crc = _FRAME.unpack(frame)
    # Zeros are a frame with a matching checksum, of a record that no request can be.
    if not MIN_MESSAGE_BYTES <= length <= min(num_bytes_left - _FRAME.size, MAX_MESSAGE_BYTES):
        return None
    record = stream.read(length)
    return record if zlib.crc32(record) == crc else None


def _check_nothing_follows(stream: BinaryIO, path: Path, offset: int) -> None:
    """Raise JournalError if a valid record follows: then this is damage, not a torn tail."""
    stream.seek(offset)
    rest = stream.read()
    at = rest.find(RECORD_MAGIC, _FRAME.size + 1)
    while at >= 0:
        stream.seek(offset + at - _FRAME.size)
        if _read_record(stream, len(rest) - at + _FRAME.size) is not None:
            raise JournalError(
                f"{path}: damaged at byte {offset}, and a valid record follows at "
                f"{offset + at - _FRAME.size}"
            )
        at = rest.find(RECORD_MAGIC, at + 1)


def sync_directory(path: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
