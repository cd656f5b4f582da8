"""Saving while steps continue: cut, write, commit."""

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from pydantic import Field, ValidationError

from fleetrec.checkpoint.staging import writable_folder
from fleetrec.config.options import Options
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.core.fault_points import fault_point
from fleetrec.embedding.native_store import TableCut
from fleetrec.embedding.record import ShardRecord
from fleetrec.embedding.sharding import NUM_BUCKETS
from fleetrec.server.admin import dense_arrays
from fleetrec.server.shard import Shard, ShardCut
from fleetrec.server.wire import Array, Kind, Message, WireError, json_array

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")

Request = TypeVar("Request", bound=Options)


class CutRequest(Options):
    """The body of CUT: minimal table versions, so that all servers use the same one."""

    token: str
    least: Mapping[str, int] = Field(default_factory=dict)


class SaveTable(Options):
    """How a table is written: files per server, and the parent snapshot of a delta."""

    shards_each: int = Field(gt=0, le=NUM_BUCKETS)
    parent: str | None = None


class SaveRequest(Options):
    """The body of SAVE: where to write the files of a cut."""

    token: str
    target: str
    tables: Mapping[str, SaveTable]


class CommitRequest(Options):
    """The body of COMMIT: whether the files of a cut were published, and their fingerprints."""

    token: str
    published: bool
    fingerprints: Mapping[str, str] = Field(default_factory=dict)


def read_cut(message: Message, shard: Shard) -> CutRequest:
    """Return the checked body of CUT."""
    request = _read(CutRequest, message)
    _check_tables(request.least, shard)
    return request


def read_commit(message: Message, shard: Shard) -> CommitRequest:
    """Return the checked body of COMMIT."""
    request = _read(CommitRequest, message)
    _check_tables(request.fingerprints, shard)
    missing = shard.stores.keys() - request.fingerprints.keys()
    if request.published and missing:
        raise WireError(f"expected the fingerprint of every table; {min(missing)} is missing")
    if not all(_FINGERPRINT.fullmatch(one) for one in request.fingerprints.values()):
        raise WireError("expected fingerprints of 16 hexadecimal digits")
    return request


class LiveCut:
    """The current cut of a server, until worker 0 commits or abandons it.

    A cut survives a restart: CUT and COMMIT are journalled, so that a replay makes the same cut.
    Its files are written again when worker 0 repeats SAVE.
    """

    def __init__(self) -> None:
        self._token = ""
        self._cut: ShardCut | None = None
        self._progress: Sequence[bytes] = ()
        self._writing = threading.Lock()
        self._written: dict[str, ShardRecord] | None = None

    @property
    def is_live(self) -> bool:
        """Return whether there is a cut; meanwhile the server starts no snapshot of its own."""
        return self._cut is not None

    def make(self, shard: Shard, request: "CutRequest", *, progress: Sequence[bytes]) -> None:
        """Cut all tables, unless this request is a repetition."""
        if self._cut is not None and self._token == request.token:
            versions = {name: cut.version for name, cut in self._cut.tables.items()}
            if all(versions.get(name, 0) >= least for name, least in request.least.items()):
                return
        self.drop()
        self._cut = shard.cut(least=request.least)
        self._token, self._progress = request.token, progress

    def describe(self) -> Message:
        """Return the tables, dense state and worker progress at the cut."""
        assert self._cut is not None
        described = {
            name: {
                "version": cut.version,
                "stats": self._cut.stats[name],
                "fingerprint": self._cut.fingerprints[name],
            }
            for name, cut in self._cut.tables.items()
        }
        arrays: list[Array] = [
            json_array({"tables": described, "num_workers": len(self._progress)})
        ]
        arrays += [np.frombuffer(one, np.uint8) for one in self._progress]
        return Message(kind=Kind.OK, arrays=[*arrays, *dense_arrays(self._cut.dense)])

    def write(self, message: Message, *, timeout_s: float) -> Message:
        """Write this server's files of all tables while steps continue.

        A repeated request waits for the first one.
        """
        request = _read(SaveRequest, message)
        with self._write_lock(timeout_s) as is_locked:
            if not is_locked:
                return Message(kind=Kind.WAIT, arrays=[np.zeros(0, np.uint32)])
            cut = self._cut
            if cut is None or self._token != request.token:
                raise CheckpointError(
                    "the server has dropped the cut that was to be saved; save again"
                )
            if self._written is None:
                unknown = request.tables.keys() - cut.tables.keys()
                if unknown:
                    raise WireError(f"no table is called {min(unknown)!r}")
                written = self._write_tables(cut, request)
                if self._cut is not cut:
                    raise CheckpointError("the server has dropped the cut while it was saved")
                self._written = written
            records = {name: record.to_plain() for name, record in self._written.items()}
        return Message(kind=Kind.OK, arrays=[json_array({"tables": records})])

    def finish(self, request: "CommitRequest") -> None:
        """Commit the cut if it was published, and drop it."""
        if self._cut is None or self._token != request.token:
            return  # a retry: the first answer was lost
        if request.published:  # the files may be those of the process that this one replaces
            for name, cut in self._cut.tables.items():
                cut.commit(request.fingerprints[name])
        self.drop()

    def drop(self) -> None:
        """Drop the cut; its changes are part of the next one."""
        if self._cut is not None:
            for cut in self._cut.tables.values():
                cut.close()
        self._cut = None
        self._written = None
        self._token = ""

    def _write_tables(self, cut: ShardCut, request: SaveRequest) -> dict[str, ShardRecord]:
        try:
            return {
                name: _write_table(cut.tables[name], storage.join(request.target, name), table)
                for name, table in request.tables.items()
            }
        except (OSError, RuntimeError) as error:  # the cut cannot be used again
            if self._cut is cut:  # and was not dropped by a request in another thread
                self.drop()
            raise CheckpointError(f"{request.target}: cannot be written: {error}") from error

    @contextlib.contextmanager
    def _write_lock(self, timeout_s: float) -> Iterator[bool]:
        """Yield whether the lock was acquired within the timeout."""
        is_locked = self._writing.acquire(timeout=timeout_s)
        try:
            yield is_locked
        finally:
            if is_locked:
                self._writing.release()


def _write_table(cut: TableCut, url: str, table: SaveTable) -> ShardRecord:
    with writable_folder(url) as directory:
        record = cut.write_shard(
            directory, parent=table.parent, shards_each=table.shards_each, num_threads=1
        )
        fault_point("save")
    return record


def _read(kind: type[Request], message: Message) -> Request:
    try:
        return kind.model_validate(message.json())
    except (ValidationError, ValueError) as error:
        raise WireError(f"{message.kind.name}: a field is missing or wrong: {error}") from error


def _check_tables(names: Iterable[str], shard: Shard) -> None:
    unknown = set(names) - shard.stores.keys()
    if unknown:
        raise WireError(f"no table is called {min(unknown)!r}")
