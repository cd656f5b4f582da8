"""Find the files of the tables in a checkpoint, and of those that its deltas build on."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from fleetrec.checkpoint.folder import Folder, open_folder
from fleetrec.checkpoint.staging import MANIFEST
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.record import Chain, ParentRecord, StoredTable, TableRecord

TABLES = "tables"


def table_folder(part: str, name: str) -> str:
    """Return where in a checkpoint the files of a table are."""
    return f"{part}/{TABLES}/{name}"


def stored_tables(folder: Folder, part: str) -> dict[str, StoredTable]:
    """Return the tables of a part (in a checkpoint, a phase), with the chain of each."""
    return {
        name: StoredTable(name=name, record=record, chain=_chain(folder, part, name, record))
        for name, record in _records(folder, part).items()
    }


def table_parts(folder: Folder) -> list[str]:
    """Return the parts of a checkpoint that have tables."""
    tables = folder.meta.get(TABLES, {})
    return list(tables) if isinstance(tables, Mapping) else []


def _records(folder: Folder, part: str) -> dict[str, TableRecord]:
    try:
        found: Mapping[str, Any] = folder.meta.get(TABLES, {}).get(part, {})
        return {name: TableRecord.model_validate(record) for name, record in found.items()}
    except (AttributeError, ValidationError) as error:
        raise CheckpointError(
            f"{_manifest(folder)}: damaged: it does not describe the tables of {part}"
        ) from error


def _chain(folder: Folder, part: str, name: str, record: TableRecord) -> Chain:
    """Follow a delta back to its base."""
    urls: list[str] = []
    fingerprints: list[str] = []
    last = record
    while True:
        where = table_folder(part, name)
        folder.check_sizes(where)
        urls.insert(0, folder.url_of(where))
        fingerprints.insert(0, last.fingerprint)
        if last.parent is None:
            break
        folder, before = _parent(folder, part, name, last.parent)
        if before.version >= last.version:
            raise CheckpointError(
                f"{storage.shown(urls[0])}: damaged: its parent is not older than itself"
            )
        last = before
    return Chain(urls=tuple(urls), fingerprint=record.fingerprint, fingerprints=tuple(fingerprints))


def _parent(
    folder: Folder, part: str, name: str, parent: ParentRecord
) -> tuple[Folder, TableRecord]:
    try:
        url = storage.resolve(parent.path, base=folder.url)
    except ValueError as error:
        raise CheckpointError(f"{_manifest(folder)}: damaged: its parent: {error}") from error
    what = f"{storage.shown(folder.url)}: is a delta of {storage.shown(url)}"
    try:
        older = open_folder(url, kind="checkpoint")
    except CheckpointError as error:
        raise CheckpointError(
            f"{what}, which cannot be opened; keep and move them together ({error})"
        ) from error
    record = _records(older, part).get(name)
    if record is None or record.fingerprint != parent.fingerprint:
        raise CheckpointError(f"{what}, which has been replaced since by another checkpoint")
    return older, record


def _manifest(folder: Folder) -> str:
    return storage.shown(storage.join(folder.url, MANIFEST))
