"""Which checkpoints hold whole tables, and which only what has changed since the last."""

import re
from collections.abc import Iterable, Mapping

from fleetrec.checkpoint.folder import is_published, open_folder
from fleetrec.checkpoint.staging import delete_folder
from fleetrec.checkpoint.tables import TABLES
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.record import TableRecord

DAY = re.compile(r"\d{8}")
PASSES = "passes"  # the folder of frozen passes next to those of days


class DeltaChain:
    """The last base and the deltas that follow it."""

    def __init__(self, base_interval: int) -> None:
        self._base_interval = base_interval
        self._urls: list[str] = []  # from the last base on

    def parent_of(self, url: str, *, must_be_delta: bool = False) -> str | None:
        """Return the parent of the delta at ``url``; None: it is a base."""
        is_due = not must_be_delta and len(self._urls) % self._base_interval == 0
        if not self._urls or is_due or url in self._urls:
            return None
        return self._urls[-1] if all(map(is_published, self._urls)) else None

    def add(self, url: str, *, is_delta: bool) -> None:
        """Append a published checkpoint."""
        self._urls = [*self._urls, url] if is_delta else [url]

    def ends_in(self, url: str) -> bool:
        """Return whether the next delta has the checkpoint at ``url`` as its parent."""
        return bool(self._urls) and self._urls[-1] == url

    def load(self, urls: Iterable[str]) -> None:
        """Continue from a checkpoint that was loaded; ``urls`` are its base, deltas, and itself."""
        self._urls = list(urls)


def has_deltas(records: Iterable[TableRecord]) -> bool:
    """Return whether some of the tables that were written are deltas."""
    return any(record.kind == "delta" for record in records)


def chain_of(url: str) -> list[str]:
    """Return the checkpoints that a checkpoint needs, from its base on, and itself."""
    chain = [url]
    while (parent := parent_in(chain[0])) is not None:
        if parent in chain:
            raise CheckpointError(f"{url}: damaged: it is its own parent")
        chain.insert(0, parent)
    return chain


def parent_in(url: str) -> str | None:
    """Return the checkpoint that the tables of a checkpoint are deltas of."""
    tables: Mapping[str, Mapping[str, Mapping[str, Mapping[str, str] | None]]]
    tables = open_folder(url, kind="checkpoint").meta.get(TABLES, {})
    for records in tables.values():
        for record in records.values():
            parent = record.get("parent")
            if parent is not None:
                return storage.resolve(parent["path"], base=url)
    return None


def prune(path: str, *, keep: int) -> list[str]:
    """Delete all but the newest ``keep`` checkpoints of a path template; returns the deleted.

    ``{step}`` and the like stand for numbers in the last part of the path. Checkpoints of which
    another one that stays is a delta stay too. Inference models are deleted the same way.
    """
    folder, name = storage.parent_of(path), storage.name_of(path)
    pattern = re.compile(re.sub(r"\\\{\w+\\\}", r"(\\d+)", re.escape(name)))
    numbers = {
        storage.join(folder, found.group()): tuple(map(int, found.groups()))
        for found in map(pattern.fullmatch, storage.list_names(folder))
        if found is not None
    }
    newest_first = sorted(filter(is_published, numbers), key=numbers.__getitem__, reverse=True)
    needed = {storage.absolute(url) for one in newest_first[:keep] for url in _readable_chain(one)}
    old = [url for url in newest_first[keep:] if storage.absolute(url) not in needed]
    for url in old:
        delete_folder(url)
    return old


def prune_days(url: str, *, before: str) -> list[str]:
    """Delete the folders of days before ``before`` in a folder of days; returns the deleted."""
    old: list[str] = []
    for folder in (url, storage.join(url, PASSES)):
        days = [name for name in storage.list_names(folder) if DAY.fullmatch(name)]
        old += [storage.join(folder, day) for day in days if day < before]
    for one in old:
        for name in storage.list_names(one):
            delete_folder(storage.join(one, name))
        storage.delete(one)
    return old


def _readable_chain(url: str) -> list[str]:
    try:
        return chain_of(url)
    except CheckpointError:  # nothing that is left of a damaged chain is needed
        return [url]
