"""Read the rows of snapshots block by block, without loading a table.

The files are described in docs/formats/table-snapshot.md.
"""

# Shape suffixes: N rows.

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec._native import ShardFile, SnapshotError
from fleetrec.core.errors import CheckpointError
from fleetrec.core.storage import local_copy
from fleetrec.embedding.record import Chain, to_hex
from fleetrec.embedding.sharding import TableShard, bucket_of, fingerprint_of

Columns = Mapping[str, npt.NDArray[Any]]
IdArray = npt.NDArray[np.uint64]

SUFFIX = ".snap"


def live_rows(chain: Chain) -> Iterator[Columns]:
    """Yield every row of a table once, block by block.

    The newest snapshot comes first. Only the ids of newer snapshots are kept in memory, to skip
    them in older ones: a base is never in memory as a whole.
    """
    with chain.local() as local:
        with checkpoint_errors():
            first = local.directories[0]
            _check_kind(first, open_shards(first)[0])
        for kind, columns in _newest_first(local):
            if kind == "rows":
                yield columns


def changed_rows(chain: Chain) -> Iterator[tuple[str, Columns]]:
    """Yield what has changed in deltas that follow each other: ``rows``, and ``tombstones``.

    An id is in the blocks of the last delta that names it, and in no other. There it may be among
    the tombstones and among the rows: then it was removed first, and has a row.
    """
    with chain.local() as local:
        yield from _newest_first(local)


def _newest_first(chain: Chain) -> Iterator[tuple[str, Columns]]:
    """Yield the blocks of all snapshots but candidates, without ids of newer snapshots."""
    newer_N: IdArray = np.zeros(0, np.uint64)
    expected = chain.fingerprint
    for place, directory in reversed(list(enumerate(chain.directories))):
        seen: list[IdArray] = []
        with checkpoint_errors():
            shards = open_shards(directory)
            for kind, columns in _blocks(shards):
                if kind == "candidates":
                    continue
                if place > 0:
                    seen.append(columns["ids"])
                yield kind, _without(columns, newer_N)
        _check_fingerprint(directory, shards, expected)
        newer_N = np.unique(np.concatenate([newer_N, *seen]))
        expected = to_hex(shards[0].header["parent_fingerprint"])


def live_candidates(chain: Chain) -> Iterator[Columns]:
    """Yield the ids that are not admitted yet, block by block; every snapshot has them all."""
    with local_copy(chain.urls[-1]) as directory, checkpoint_errors():
        for kind, columns in _blocks(open_shards(directory)):
            if kind == "candidates":
                yield columns


def find_rows(chain: Chain, ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the rows of some ids, by column; reads only the shards that can hold them."""
    with chain.local() as local, checkpoint_errors():
        return _find_rows(local, ids)


def _find_rows(chain: Chain, ids: Collection[int]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    left = set(ids)
    for directory in reversed(chain.directories):
        shards = _shards_of(open_shards(directory), left)
        for kind, columns in _blocks(shards):
            if kind == "candidates":
                continue
            for at in np.flatnonzero(np.isin(columns["ids"], _to_array(left))):
                one = int(columns["ids"][at])
                left.discard(one)
                if kind == "rows":
                    found[one] = {name: column[at] for name, column in columns.items()}
    return found


def open_shards(directory: Path) -> list[ShardFile]:
    """Open all files of a snapshot, in the order of shards; none may be missing."""
    names = sorted(path.name for path in directory.glob(f"*{SUFFIX}"))
    if not names:
        raise CheckpointError(f"{directory}: holds no snapshot of a table")
    with checkpoint_errors():
        num_shards = ShardFile(directory / names[0]).header["num_shards"]
    expected = [f"{shard:05d}-of-{num_shards:05d}{SUFFIX}" for shard in range(num_shards)]
    wrong = sorted(set(names) ^ set(expected))
    if wrong:
        what = "is missing" if wrong[0] in expected else "does not belong to the snapshot"
        raise CheckpointError(f"{directory / wrong[0]}: {what}")
    with checkpoint_errors():
        return [ShardFile(directory / name) for name in names]


@contextlib.contextmanager
def checkpoint_errors() -> Iterator[None]:
    """Re-raise errors of the native reader as ``CheckpointError``."""
    try:
        yield
    except SnapshotError as error:
        raise CheckpointError(str(error)) from error


def _blocks(shards: Collection[ShardFile]) -> Iterator[tuple[str, Columns]]:
    for shard in shards:
        while (block := shard.next_block()) is not None:
            yield block


def _without(columns: Columns, newer_N: IdArray) -> Columns:
    if not len(newer_N):
        return columns
    ids_N = columns["ids"]
    at_N = np.searchsorted(newer_N, ids_N).clip(max=len(newer_N) - 1)
    is_old_N = newer_N[at_N] != ids_N
    return {name: column[is_old_N] for name, column in columns.items()}


def _shards_of(shards: list[ShardFile], ids: Collection[int]) -> list[ShardFile]:
    has_range = shards[0].header["num_rows"] is not None
    buckets = {bucket_of(one, has_range=has_range) for one in ids}
    size = len(shards)
    return [
        shard
        for number, shard in enumerate(shards)
        if not buckets.isdisjoint(range(*TableShard(index=number, count=size).buckets))
    ]


def _check_kind(directory: Path, shard: ShardFile) -> None:
    if shard.header["kind"] != "base":
        raise CheckpointError(
            f"{directory}: is a delta, which is no table by itself; name its checkpoint instead"
        )


def _check_fingerprint(directory: Path, shards: list[ShardFile], expected: str | None) -> None:
    fingerprint = fingerprint_of(shard.crc for shard in shards)
    if expected is not None and to_hex(fingerprint) != expected:
        raise CheckpointError(
            f"{directory}: has the fingerprint {to_hex(fingerprint)}, expected {expected}: it was "
            "replaced or is damaged"
        )


def _to_array(ids: Collection[int]) -> IdArray:
    return np.fromiter(ids, np.uint64, len(ids))
