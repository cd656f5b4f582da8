"""``fleetrec pai2job``: from a command of PAI to a backend.yaml."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from fleetrec.config.cluster.keys import DEFAULT_JOB_NAME
from fleetrec.config.cluster.pai import decode_pai
from fleetrec.core import storage
from fleetrec.core.errors import ConfigError, DataError


def convert(
    source: str,
    target: Path,
    *,
    backend: str,
    replaced: Mapping[str, str],
    skips_refused: bool,
) -> None:
    """Write the backend file of a command, which is given as text or in a file."""
    is_command = source.lstrip().startswith("pai ")
    if not is_command and not Path(source).is_file():
        raise ConfigError([f"{source}: no such file, and no command pai -name easy_rec_ext ..."])
    text = source if is_command else Path(source).read_text(encoding="utf-8")
    job = decode_pai(text, replaced=replaced, skips_refused=skips_refused)
    if target.exists():
        raise ConfigError([f"{target}: is there already; choose another with --output"])
    data: dict[str, Any] = {"backend": backend}
    if job.env:
        data["config"] = {"env": dict(job.env)}
    name = Path(job.config).stem
    data["submit"] = {
        "job_name": name if name[:1].isalnum() else DEFAULT_JOB_NAME,
        "start_cmd": job.start_cmd,
        **job.submit,
    }
    config = job.config
    if not storage.is_local(config):
        config = storage.name_of(config)
        with storage.storage_errors(job.config, doing="fetched", kind=DataError):
            content = storage.read_bytes(job.config)
        Path(config).write_bytes(content)
        print(f"{storage.shown(job.config)} is copied to {config}")
    with target.open("w", encoding="utf-8") as stream:
        YAML().dump(data, stream)
    for notice in job.notices:
        print(notice)
    print(f"written: {target}; to submit it:")
    print(f"  fleetrec submit -m {shlex.quote(config)} -b {shlex.quote(str(target))}")
