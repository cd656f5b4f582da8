"""A published folder, at a path or a URL: files, and a manifest with their sizes and checksums.

Checkpoints and inference models are such folders; docs/formats/checkpoint.md describes the format.
Nothing here needs torch.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleetrec.checkpoint.staging import MANIFEST, ROOT_KEY, Staging
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, FleetRecError, MissingFileError

FORMAT_VERSIONS = MappingProxyType({"checkpoint": 2, "inference model": 2})

# Writes files with their own checksums; returns their entry in the manifest.
Fill = Callable[[Staging], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folder:
    """A published folder whose manifest has been read; files are read on request."""

    url: str
    meta: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]
    root: str = "."  # where the files are, relative to the manifest

    @property
    def name(self) -> str:
        """Return where the folder is, for messages."""
        return storage.shown(self.url)

    def url_of(self, name: str) -> str:
        """Return where a file or a sub-folder is."""
        return storage.join(self.url, self.root, name)

    def parts(self) -> list[str]:
        """Return the names of its sub-folders: in a checkpoint, the phases."""
        return list(dict.fromkeys(name.partition("/")[0] for name in self.files if "/" in name))

    def read_bytes(self, name: str) -> bytes:
        """Return a file, checked against its checksum."""
        url = self.url_of(name)
        where = storage.shown(url)
        if name not in self.files:
            raise CheckpointError(f"{where}: not listed in {MANIFEST}")
        try:
            content = storage.read_bytes(url)
        except MissingFileError as error:
            raise MissingFileError(f"{error}{self._hint()}") from error
        if describe(content) != self.files[name]:
            raise CheckpointError(f"{where}: damaged: size or checksum is not as in {MANIFEST}")
        return content

    def check_sizes(self, part: str) -> None:
        """Check that the files below a sub-folder are those of the manifest, without reading."""
        expected = [name for name in self.files if name.startswith(f"{part}/")]
        found = storage.sizes_below(self.url_of(part))  # one listing, not a request per file
        for name in expected:
            listed, where = self.files[name], storage.shown(self.url_of(name))
            num_bytes = found.get(name.removeprefix(f"{part}/"))
            if num_bytes is None:
                raise CheckpointError(f"{where}: cannot be read: it is missing{self._hint()}")
            if not isinstance(listed, Mapping) or num_bytes != listed.get("bytes"):
                raise CheckpointError(f"{where}: damaged: its size is not as in {MANIFEST}")

    def _hint(self) -> str:
        """Return why files may be missing if each version of a folder has its own files."""
        return "" if self.root == "." else " (was the folder replaced or deleted meanwhile?)"


def write_folder(
    url: str | Path,
    *,
    contents: Mapping[str, bytes],
    meta: Mapping[str, Any],
    fill: Fill | None = None,
) -> None:
    """Publish files and manifest as one folder; ``fill`` may add large files."""
    staging = Staging.create(url)
    try:
        staging.publish(_fill(staging, contents, meta, fill))
    except BaseException:
        with contextlib.suppress(FleetRecError):  # the first error is the one to show
            staging.discard()
        raise


def _fill(
    staging: Staging,
    contents: Mapping[str, bytes],
    meta: Mapping[str, Any],
    fill: Fill | None,
) -> dict[str, Any]:
    """Write all files; returns the manifest."""
    with staging.folder() as folder:
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    more = {} if fill is None else fill(staging)
    files = {name: describe(content) for name, content in contents.items()}
    written = storage.sizes_below(staging.url)
    found = {name: {"bytes": num_bytes} for name, num_bytes in written.items()}
    _check_written(staging, found, files)
    for name, entry in found.items():
        files.setdefault(name, entry)
    version = FORMAT_VERSIONS[meta["kind"]]
    return {"format_version": version, **_finite({**meta, **more}), "files": files}


def publish_folder(
    staging: Staging,
    *,
    contents: Mapping[str, bytes],
    meta: Mapping[str, Any],
    written: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Write files into a staging folder, then publish all that is there with a manifest.

    ``written`` has the entries (see ``describe``) of files that are there already.
    """
    for name, content in contents.items():
        storage.write_bytes(storage.join(staging.url, name), content)
    files: dict[str, Any] = {
        name: {"bytes": num_bytes} for name, num_bytes in storage.sizes_below(staging.url).items()
    }
    files |= {name: describe(content) for name, content in contents.items()}
    _check_written(staging, files, written)
    files |= {name: dict(entry) for name, entry in written.items()}
    version = FORMAT_VERSIONS[meta["kind"]]
    staging.publish({"format_version": version, **_finite(meta), "files": files})


def _check_written(
    staging: Staging,
    found: Mapping[str, Mapping[str, Any]],
    written: Mapping[str, Mapping[str, Any]],
) -> None:
    """Check that the files that were written are there."""
    for name, entry in sorted(written.items()):
        if name not in found or found[name]["bytes"] != entry["bytes"]:
            raise CheckpointError(
                f"{storage.shown(staging.url)}: {name} is gone; does another process write "
                f"{storage.shown(staging.target)} too?"
            )


def open_folder(url: str | Path, *, kind: str) -> Folder:
    """Read the manifest of a checkpoint or an inference model."""
    url = storage.to_url(url)
    here, where = storage.shown(url), storage.shown(storage.join(url, MANIFEST))
    try:
        content = storage.read_bytes(storage.join(url, MANIFEST))
    except MissingFileError as error:
        reason = "" if storage.is_local(url) else f": {error.__cause__}"
        raise CheckpointError(f"{here}: no {kind} (it has no {MANIFEST}){reason}") from None
    try:
        manifest = json.loads(content.decode())
        version = manifest.pop("format_version")
        readable = FORMAT_VERSIONS.get(manifest.get("kind"), FORMAT_VERSIONS[kind])
        if version != readable:
            raise CheckpointError(
                f"{where}: written in format {version}, this version reads format {readable}"
            )
        found, files = manifest["kind"], dict(manifest.pop("files"))
        root = str(manifest.pop(ROOT_KEY, "."))
    except KeyError as error:
        raise CheckpointError(f"{where}: damaged: it has no {error}") from error
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{where}: damaged: {type(error).__name__}: {error}") from error
    if found != kind:
        raise CheckpointError(f"{here}: expected kind {kind!r}, found {found!r}")
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in (root, *files)):
        raise CheckpointError(f"{where}: damaged: a file lies outside the folder")
    return Folder(url=url, meta=manifest, files=files, root=root)


def published_kind(url: str | Path) -> str | None:
    """Return the kind of a published folder; None: it is none, or its manifest is damaged."""
    try:
        kind = json.loads(storage.read_bytes(storage.join(url, MANIFEST)))["kind"]
    except (CheckpointError, ValueError, KeyError, TypeError):
        return None
    return str(kind)


def is_published(url: str | Path) -> bool:
    """Return whether a folder is complete."""
    return storage.exists(storage.join(url, MANIFEST))


def published_names(url: str | Path) -> list[str]:
    """Return the names of the published folders in a folder, sorted; none if it is missing."""
    url = storage.to_url(url)
    names = [name for name in storage.list_names(url) if not name.startswith(".")]
    return [name for name in names if is_published(storage.join(url, name))]


def describe(content: bytes) -> dict[str, Any]:
    """Return the entry of a file in the manifest."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _finite(value: Any) -> Any:
    """Return undefined metrics as null: JSON has no nan."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
