"""Records of tables in manifests, from which another process can resume."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from fleetrec.config.options import Options
from fleetrec.core import storage

COUNTS = ("created", "evicted", "evicted_unseen", "evicted_score", "evicted_capacity")


def counts_of(stats: Mapping[str, int]) -> dict[str, int]:
    """Return how many rows a table has created and evicted so far; earlier files have fewer."""
    return {key: stats.get(key, 0) for key in COUNTS}


class TableIdentity(Options):
    """Settings that must be equal for exact resuming from another table."""

    dim: int
    num_rows: int | None
    out_of_range: str
    salt: str  # 16 hexadecimal digits
    initializer: dict[str, str | float]
    optimizer: str
    hyperparameters: dict[str, float]
    guards: dict[str, float]
    admission: dict[str, str | float]
    long_vector: dict[str, float] | None = None

    def differences(self, now: "TableIdentity") -> list[str]:
        """Return a description of the differences from ``now``."""
        before, after = self.to_plain(), now.to_plain()
        return [
            f"{key} was {before[key]!r}, now it is {after[key]!r}"
            for key in before
            if before[key] != after[key]
        ]


class ParentRecord(Options):
    """The parent of a delta."""

    path: str  # of the other checkpoint, relative to that of the delta
    fingerprint: str


class TableRecord(Options):
    """A table in the manifest of a checkpoint."""

    identity: TableIdentity
    kind: Literal["base", "delta"]
    parent: ParentRecord | None
    version: int
    fingerprint: str  # of its files: 16 hexadecimal digits
    rows: int  # of the whole table, also for a delta; so are the others
    candidates: int
    created: int
    evicted: int
    evicted_unseen: int = 0
    evicted_score: int = 0
    evicted_capacity: int = 0


class ShardRecord(Options):
    """The files of a snapshot that one shard has written."""

    kind: Literal["base", "delta"]
    version: int
    crcs: tuple[int, ...]  # of its files, in order
    rows: int  # of the whole shard, also for a delta; so are the others
    candidates: int
    created: int
    evicted: int
    evicted_unseen: int = 0
    evicted_score: int = 0
    evicted_capacity: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chain:
    """The folders of a base and of the deltas that follow it, in this order."""

    urls: tuple[str, ...]
    fingerprint: str | None = None  # of the last, where it is known
    fingerprints: tuple[str, ...] = ()  # of each, where they are known

    @property
    def name(self) -> str:
        """Return the folder of the last, for messages."""
        return storage.shown(self.urls[-1])

    @contextlib.contextmanager
    def local(self) -> Iterator["Chain"]:
        """Yield the same chain on this machine: native readers need files."""
        with contextlib.ExitStack() as stack:
            copies = [str(stack.enter_context(storage.local_copy(url))) for url in self.urls]
            yield dataclasses.replace(self, urls=tuple(copies))

    @property
    def directories(self) -> tuple[Path, ...]:
        """Return the folders of a chain that is on this machine."""
        return tuple(map(storage.local_path, self.urls))


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredTable:
    """A table in a checkpoint."""

    name: str
    record: TableRecord
    chain: Chain

    def to_plain(self) -> dict[str, Any]:
        """Return the table as plain data, for another process that can read the same URLs."""
        return {
            "name": self.name,
            "record": self.record.to_plain(),
            "urls": [storage.absolute(url) for url in self.chain.urls],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Rebuild a table from ``to_plain``."""
        record = TableRecord.model_validate(plain["record"])
        chain = Chain(urls=tuple(map(str, plain["urls"])), fingerprint=record.fingerprint)
        return cls(name=str(plain["name"]), record=record, chain=chain)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenTable:
    """A table whose files have been written; call ``commit`` when they are published."""

    record: TableRecord
    commit: Callable[[], None]


def to_hex(number: int) -> str:
    """Write 64 bits as text: JSON numbers are not exact that far."""
    return f"{number:016x}"
