"""The rendered manifests of a job, in a subfolder of its folder."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ruamel.yaml import YAML

from fleetrec.core.errors import ConfigError
from fleetrec.launch.manifests.files import with_new_contents
from fleetrec.launch.manifests.names import INSTANCE, Object
from fleetrec.launch.manifests.yaml_text import to_yaml

FOLDER = "kubernetes"
FILES = "1-files.yaml"
SECRETS = "2-secrets.yaml"
SERVERS = "3-servers.yaml"
WORKERS = "4-workers.yaml"
END = "5-end.yaml"
PRIVATE = (SECRETS,)


def write_manifests(folder: Path, contents: Mapping[str, Sequence[Object]]) -> list[Path]:
    """Write manifests by their file names, and nothing else; only the owner can read secrets."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return [_write(folder / name, objects) for name, objects in contents.items() if objects]


def read_workload(folder: Path) -> Object:
    """Return the object of the workers of a job folder: the last one of their file."""
    return _read(folder / FOLDER / WORKERS)[-1]


def job_name(workload: Object) -> str:
    """Return the name of the job that an object belongs to."""
    return str(workload["metadata"]["labels"][INSTANCE])


def refresh_files(folder: Path) -> None:
    """Put the present contents of the files of a job folder into its manifests."""
    paths = _file_paths(read_workload(folder))
    for name, kind in ((FILES, "configMap"), (SECRETS, "secret")):
        path = folder / FOLDER / name
        if kind not in paths:
            continue
        item = _read(path)[-1]
        new = with_new_contents(item, folder, paths[kind])
        if new != item:
            _write(path, [new])


def _file_paths(value: object) -> dict[str, dict[str, str]]:
    """Find the volume with the files of the job; return its paths by source and key."""
    if isinstance(value, list):
        return next((found for item in value if (found := _file_paths(item))), {})
    if not isinstance(value, dict):
        return {}
    if value.get("name") == "files" and "projected" in value:
        return {
            kind: {item["key"]: item["path"] for item in content["items"]}
            for source in value["projected"]["sources"]
            for kind, content in source.items()
        }
    return _file_paths(list(value.values()))


def _read(path: Path) -> list[Object]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            [f"{path}: no such file; this is no folder of a job for Kubernetes"]
        ) from error
    return [dict(item) for item in YAML(typ="safe").load_all(text)]


def _write(path: Path, objects: Sequence[Object]) -> Path:
    path.unlink(missing_ok=True)
    mode = 0o600 if path.name in PRIVATE else 0o644
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as stream:
        stream.write(to_yaml(objects))
    return path
