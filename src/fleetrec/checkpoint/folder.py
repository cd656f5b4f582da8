"""A published folder: files, and a manifest that vouches for them.

Checkpoints and inference models are such folders; docs/formats/checkpoint.md writes the format
down. Nothing here needs torch.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleetrec.checkpoint.publish import publish
from fleetrec.checkpoint.staging import Staging
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError

MANIFEST = "MANIFEST.json"
FORMAT_VERSIONS = MappingProxyType({"checkpoint": 2, "inference model": 1})

# Writes files that carry checksums of their own; returns what the manifest says about them.
Fill = Callable[[Path], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folder:
    """A published folder whose manifest has been read; files are read when asked for."""

    path: Path
    meta: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]

    def parts(self) -> list[str]:
        """Return the names of its sub-folders: in a checkpoint, the phases."""
        return list(dict.fromkeys(name.partition("/")[0] for name in self.files if "/" in name))

    def read_bytes(self, name: str) -> bytes:
        """Return a file, checked against its checksum."""
        path = self.path / name
        if name not in self.files:
            raise CheckpointError(f"{path}: not listed in {MANIFEST}")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from error
        if _describe(content) != self.files[name]:
            raise CheckpointError(f"{path}: damaged: size or checksum is not as in {MANIFEST}")
        return content

    def check_sizes(self, part: str) -> None:
        """Check that the files below a sub-folder are those of the manifest, without reading."""
        for name, listed in self.files.items():
            path = self.path / name
            if not name.startswith(f"{part}/"):
                continue
            try:
                num_bytes = path.stat().st_size
            except OSError as error:
                raise CheckpointError(f"{path}: cannot be read: {error}") from error
            if not isinstance(listed, Mapping) or num_bytes != listed.get("bytes"):
                raise CheckpointError(f"{path}: damaged: its size is not as in {MANIFEST}")


def write_folder(
    directory: Path,
    *,
    contents: Mapping[str, bytes],
    meta: Mapping[str, Any],
    fill: Fill | None = None,
) -> None:
    """Publish files and manifest as one folder; ``fill`` may add large files."""

    def write(staging: Path) -> None:
        for name, content in contents.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        more = {} if fill is None else fill(staging)
        files = {name: _describe(content) for name, content in contents.items()}
        for path in sorted(path for path in staging.rglob("*") if path.is_file()):
            name = path.relative_to(staging).as_posix()
            files.setdefault(name, {"bytes": path.stat().st_size})
        version = FORMAT_VERSIONS[meta["kind"]]
        manifest = {"format_version": version, **_finite({**meta, **more}), "files": files}
        text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
        (staging / MANIFEST).write_text(text + "\n", encoding="utf-8")

    publish(directory, write)


def publish_folder(
    staging: Staging, *, contents: Mapping[str, bytes], meta: Mapping[str, Any]
) -> None:
    """Write files into a staging folder, then publish all that is there with a manifest."""
    for name, content in contents.items():
        storage.write_bytes(storage.join(staging.url, name), content)
    files: dict[str, Any] = {
        name: {"bytes": num_bytes} for name, num_bytes in storage.sizes_below(staging.url).items()
    }
    files |= {name: _describe(content) for name, content in contents.items()}
    version = FORMAT_VERSIONS[meta["kind"]]
    staging.publish({"format_version": version, **_finite(meta), "files": files})


def open_folder(directory: Path | str, *, kind: str) -> Folder:
    """Read the manifest of a checkpoint or an inference model."""
    directory = Path(directory)
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = manifest.pop("format_version")
        readable = FORMAT_VERSIONS.get(manifest.get("kind"), FORMAT_VERSIONS[kind])
        if version != readable:
            raise CheckpointError(
                f"{path}: written in format {version}, this version reads format {readable}"
            )
        found, files = manifest["kind"], dict(manifest.pop("files"))
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{directory}: no {kind} (it has no {MANIFEST})") from None
    except KeyError as error:
        raise CheckpointError(f"{path}: damaged: it has no {error}") from error
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: {type(error).__name__}: {error}") from error
    if found != kind:
        raise CheckpointError(f"{directory}: expected kind {kind!r}, found {found!r}")
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in files):
        raise CheckpointError(f"{path}: damaged: a file lies outside the folder")
    return Folder(path=directory, meta=manifest, files=files)


def is_published(directory: Path | str) -> bool:
    """Tell whether a folder is complete."""
    return (Path(directory) / MANIFEST).is_file()


def _describe(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _finite(value: Any) -> Any:
    """Write undefined figures as null: JSON has no nan."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
