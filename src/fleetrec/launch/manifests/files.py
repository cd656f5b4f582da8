"""The files of a job folder, as a ConfigMap and a Secret."""

import base64
import dataclasses
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetrec.core.errors import ConfigError
from fleetrec.launch.manifests.names import Naming, Object

MAX_BYTES = 1 << 20  # of a ConfigMap, and of a Secret
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
EXECUTABLE = 0o755
NOT_FOR_PODS = ("backend.yaml", "job.json")  # how the job is submitted, with credentials for that


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A file of the job folder; the key under which an object has it."""

    key: str
    path: str
    content: bytes
    is_executable: bool
    is_private: bool

    def item(self) -> Object:
        """Return where pods have the file."""
        mode = {"mode": EXECUTABLE} if self.is_executable else {}
        return {"key": self.key, "path": self.path, **mode}


def read_job_files(folder: Path, *, except_in: str) -> list[JobFile]:
    """Read the files of a job folder, but not hidden ones and those in one subfolder.

    A file that only its owner may read is private: it becomes part of the Secret.
    """
    paths = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not _is_left_out(path.relative_to(folder), except_in)
    )
    found = []
    for number, path in enumerate(paths):
        name = path.relative_to(folder).as_posix()
        mode = path.stat().st_mode
        found.append(
            JobFile(
                key=name if KEY.fullmatch(name) else f"file-{number}",
                path=name,
                content=path.read_bytes(),
                is_executable=bool(mode & stat.S_IXUSR),
                is_private=not mode & (stat.S_IRGRP | stat.S_IROTH),
            )
        )
    return found


def _is_left_out(path: Path, subfolder: str) -> bool:
    if path.parts[0] == subfolder or path.as_posix() in NOT_FOR_PODS:
        return True
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def check_size(files: Sequence[JobFile], folder: Path) -> None:
    """Refuse a job folder that is too large for Kubernetes."""
    total = sum(len(file.content) + len(file.key) for file in files)
    if total > MAX_BYTES:
        largest = sorted(files, key=lambda file: -len(file.content))[:3]
        listed = ", ".join(f"{file.path} ({len(file.content)} bytes)" for file in largest)
        raise ConfigError(
            [
                f"submit.files: {folder} holds {total} bytes, but Kubernetes takes at most "
                f"{MAX_BYTES} bytes of files with a job; the largest are {listed}: leave data to "
                "train_data_path or to a volume (claims), and put large programs into the image"
            ]
        )


def config_map(naming: Naming, files: Sequence[JobFile]) -> Object:
    """Return the ConfigMap with the files that are not private."""
    text: dict[str, str] = {}
    binary: dict[str, str] = {}
    for file in files:
        if file.is_private:
            continue
        try:
            text[file.key] = file.content.decode("utf-8")
        except UnicodeDecodeError:
            binary[file.key] = base64.b64encode(file.content).decode("ascii")
    content: dict[str, Any] = {}
    if text:
        content["data"] = text
    if binary:
        content["binaryData"] = binary
    return naming.make("v1/ConfigMap", naming.files, "files", **content)


def secret(naming: Naming, files: Sequence[JobFile], variables: Mapping[str, str]) -> Object:
    """Return the Secret with private files and the values of secret variables."""
    content = {file.key: file.content for file in files if file.is_private}
    content |= {name: value.encode("utf-8") for name, value in variables.items()}
    encoded = {name: base64.b64encode(value).decode("ascii") for name, value in content.items()}
    return naming.make("v1/Secret", naming.secrets, "files", type="Opaque", data=encoded)


def files_volume(naming: Naming, files: Sequence[JobFile]) -> Object:
    """Return the volume in which pods have the files of the job folder."""
    sources = []
    for kind, name, is_private in (
        ("configMap", naming.files, False),
        ("secret", naming.secrets, True),
    ):
        items = [file.item() for file in files if file.is_private is is_private]
        if items:
            sources.append({kind: {"name": name, "items": items}})
    return {"name": "files", "projected": {"sources": sources}}


def with_new_contents(item: Object, folder: Path, paths: Mapping[str, str]) -> Object:
    """Return a ConfigMap or a Secret with the present contents of its files.

    ``paths`` are those of the files in the job folder, by their keys.
    """
    found: Object = {name: dict(item[name]) for name in ("data", "binaryData") if name in item}
    for key, path in paths.items():
        content = _read(folder / path)
        encoded = base64.b64encode(content).decode("ascii")
        if item["kind"] == "Secret":
            found.setdefault("data", {})[key] = encoded
            continue
        for values in found.values():
            values.pop(key, None)
        try:
            found.setdefault("data", {})[key] = content.decode("utf-8")
        except UnicodeDecodeError:
            found.setdefault("binaryData", {})[key] = encoded
    return {**item, **found}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            [f"{path}: no such file, but the rendered job has it; submit the job file again"]
        ) from error
