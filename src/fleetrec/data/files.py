"""The files of a data set, on this machine or at a URL."""

import contextlib
import dataclasses
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import pyarrow as pa

from fleetrec.core import storage
from fleetrec.core.errors import DataError, MissingFileError
from fleetrec.core.remote_files import file_system
from fleetrec.core.stream_start import parse_start
from fleetrec.core.stream_url import ClientOptions, StreamUrl, is_stream, parse_url
from fleetrec.data.streams.client import opened
from fleetrec.data.streams.ranges import freeze, offsets_of
from fleetrec.data.streams.reader import RangeReader

T = TypeVar("T")

MARKERS = ("_SUCCESS",)  # markers by which other programs mark a folder as complete
MESSAGE_BYTES = 256  # a guess, for the progress of a range whose size is not known
READ_AHEAD_BYTES = 1 << 23


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file, its name in the data set, its size.

    ``path`` is a path, a URL that fsspec understands, or a range of a message stream.
    """

    path: str
    name: str
    num_bytes: int
    options: ClientOptions = dataclasses.field(default=(), repr=False)  # of a stream; secrets

    @property
    def suffix(self) -> str:
        """Return the last suffix of the name, in small letters."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def is_gzip(self) -> bool:
        """Return whether the file is decompressed while it is read."""
        return self.suffix == ".gz"

    @property
    def is_remote(self) -> bool:
        """Return whether the path is a URL."""
        return not storage.is_local(self.path)

    def current_bytes(self) -> int | None:
        """Return the size that the file has now; None if it is gone.

        A range of a stream does not change; that its messages are there is checked when read.
        """
        if self.is_stream:
            return self.num_bytes
        try:
            return storage.size_of(self.path)
        except MissingFileError:
            return None

    def modified_at(self) -> float | None:
        """Return when the file was last written, in seconds since 1970; None if not known."""
        if self.is_stream:
            return None
        return storage.modified_at(self.path)

    @property
    def is_stream(self) -> bool:
        """Return whether the content is a range of a message stream, one message per line."""
        return is_stream(self.path)

    def open(self, *, in_order: bool = True) -> BinaryIO:
        """Open the bytes as they are stored.

        Without ``in_order`` only some ranges will be read, so nothing is read ahead.
        """
        if self.is_stream:
            return cast(BinaryIO, RangeReader(self.path, self.options))
        if not self.is_remote:
            return storage.open_read(self.path)
        ahead: dict[str, Any] = {"cache_type": "none"}
        if in_order:
            ahead = {"cache_type": "readahead", "block_size": READ_AHEAD_BYTES}
        with storage_errors(self.path, doing="opened"):
            return storage.open_read(self.path, **ahead)


@contextlib.contextmanager
def storage_errors(path: str, *, doing: str) -> Iterator[None]:
    """Re-raise storage errors of a data file as one line."""
    try:
        with storage.storage_errors(path, doing=doing, kind=DataError):
            yield
    except (zlib.error, pa.ArrowException) as error:  # of local files; it knows neither
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be {doing}: {reason}") from error


def list_files(data_path: str, client: ClientOptions = ()) -> tuple[DataFile, ...]:
    """Return the files of a folder, a file, a glob pattern or a URL, sorted by path.

    Of a stream, they are the messages that it has now; ``client`` are options of its client.

    Hidden files, those in hidden folders, and markers such as ``_SUCCESS`` are left out.
    """
    if is_stream(data_path):
        return stream_files(data_path, client)
    if not storage.is_local(data_path):
        return _remote_files(data_path)
    path = storage.local_path(data_path)
    if path.is_file():
        return (_data_file(path, path.parent),)
    if path.is_dir():
        found = [
            p for p in path.rglob("*") if p.is_file() and counts_as_data(p.relative_to(path).parts)
        ]
        root = path
    else:
        root = _fixed_part(path)
        matches = list(root.glob(str(path.relative_to(root))))
        found = [p for p in matches if p.is_file() and counts_as_data(p.relative_to(root).parts)]
        if not matches:
            raise DataError(f"{path}: no such file or folder")
    if not found:
        raise DataError(f"{path}: the folder holds no data file (hidden files do not count)")
    return tuple(_data_file(p, root) for p in sorted(found, key=str))


def stream_files(url: str, options: ClientOptions = ()) -> tuple[DataFile, ...]:
    """Return the messages of a stream from its ``start`` up to now; of a range all."""
    parsed = parse_url(url)
    if parsed.is_range:
        num_messages = (parsed.end or 0) - (parsed.begin or 0)
        return (range_file(parsed, num_bytes=num_messages * MESSAGE_BYTES, options=options),)
    start = parsed.start or "earliest"
    with opened(parsed, options) as client:
        begins = offsets_of(client, parse_start(start, where=f"{parsed.shown}: start"))
        frozen = freeze(client, parsed, begins, client.end_offsets())
    if not frozen.ranges:
        raise DataError(f"{parsed.shown}: no message from {start} on")
    return tuple(
        range_file(one.url, num_bytes=one.num_bytes, options=options) for one in frozen.ranges
    )


def range_file(url: StreamUrl, *, num_bytes: int, options: ClientOptions = ()) -> DataFile:
    """Return the messages of a range as a file; ``num_bytes`` may be an estimate."""
    return DataFile(path=str(url), name=url.name, num_bytes=num_bytes, options=options)


def shuffled_files(files: Sequence[T], *, seed: int, epoch: int) -> tuple[T, ...]:
    """Return the files in the order of one epoch; the same seed gives the same order."""
    order = np.random.default_rng([seed, epoch]).permutation(len(files))
    return tuple(files[i] for i in order)


def fingerprint(files: Sequence[DataFile]) -> str:
    """Return a digest of names and sizes, to detect that the data of a run has changed."""
    listing = "\n".join(f"{file.name}\t{file.num_bytes}" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def files_below(url: str) -> tuple[DataFile, ...]:
    """Return the files below a folder that may not be there yet, sorted by name."""
    return tuple(
        DataFile(path=storage.join(url, name), name=name, num_bytes=num_bytes)
        for name, num_bytes in storage.sizes_below(url).items()
        if counts_as_data(PurePosixPath(name).parts)
    )


def _remote_files(url: str) -> tuple[DataFile, ...]:
    with storage_errors(url, doing="listed"):
        system, path = file_system(url)
        has_pattern = any(mark in path for mark in "*?[")
        found = system.glob(path, detail=True) if has_pattern else system.find(path, detail=True)
    root = PurePosixPath(path).parent if len(found) == 1 or has_pattern else PurePosixPath(path)
    files = []
    for name, details in sorted(found.items()):
        inner = _below(PurePosixPath(name), root)
        if details.get("type") == "file" and counts_as_data(PurePosixPath(inner).parts):
            whole = system.unstrip_protocol(name)
            files.append(DataFile(path=whole, name=inner, num_bytes=int(details["size"] or 0)))
    if not files:
        raise DataError(f"{url}: no such file or folder, or it holds no data file")
    return tuple(files)


def _below(path: PurePosixPath, root: PurePosixPath) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _fixed_part(pattern: Path) -> Path:
    """Return the folder above the first step of a pattern that can vary."""
    fixed = Path(pattern.anchor)
    for part in pattern.parts[len(fixed.parts) : -1]:
        if any(mark in part for mark in "*?["):
            break
        fixed /= part
    return fixed


def counts_as_data(parts: Sequence[str]) -> bool:
    """Return whether a file is data by its path: not hidden, and no marker."""
    return parts[-1] not in MARKERS and not any(part.startswith(".") for part in parts)


def _data_file(path: Path, root: Path) -> DataFile:
    name = str(path.relative_to(root))
    return DataFile(path=str(path), name=name, num_bytes=path.stat().st_size)
