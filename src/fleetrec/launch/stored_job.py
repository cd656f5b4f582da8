"""A job in files: what the engines render, and what a node reads to run its part."""

import dataclasses
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetrec.core.env import TOKEN
from fleetrec.core.errors import ConfigError
from fleetrec.launch.job_files import write_private
from fleetrec.launch.job_spec import JobSpec, Resources, RoleSpec, is_secret
from fleetrec.launch.placement import LocalReplicas

JOB_FILE = "tasks.json"
SECRETS_FILE = "tasks.secrets.json"
LOG_FOLDER = "logs"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job, and the replicas of each of its tasks: processes that the engine starts on nodes."""

    job: JobSpec
    tasks: tuple[LocalReplicas, ...]


def write_stored_job(stored: StoredJob, folder: Path) -> list[Path]:
    """Write a job to a folder; values of secret variables to a file that only the owner can read.

    Servers on several nodes need a secret; if the job has none, it gets a new one.
    """
    job = stored.job
    if job.servers is not None and TOKEN not in job.env:
        job = dataclasses.replace(job, env={**job.env, TOKEN: secrets.token_hex(16)})
    hidden: dict[str, dict[str, str]] = {}
    plain = {
        "name": job.name,
        "env": _split(job.env, "job", hidden),
        "roles": [
            {
                **dataclasses.asdict(dataclasses.replace(role, env={})),
                "env": _split(role.env, role.name, hidden),
            }
            for role in job.roles
        ],
        "tasks": [{"servers": task.servers, "workers": task.workers} for task in stored.tasks],
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / JOB_FILE, folder / SECRETS_FILE]
    paths[0].write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    write_private(paths[1], (json.dumps(hidden, indent=1) + "\n").encode())
    return paths


def read_stored_job(folder: Path) -> StoredJob:
    """Read the job of a folder, with its secrets."""
    plain, hidden = _read(folder / JOB_FILE), _read(folder / SECRETS_FILE)
    try:
        roles = tuple(
            RoleSpec(
                **{
                    **given,
                    "command": tuple(given["command"]),
                    "env": {**given["env"], **hidden.get(given["name"], {})},
                    "resources": Resources(**given["resources"]),
                }
            )
            for given in plain["roles"]
        )
        env = {**plain["env"], **hidden.get("job", {})}
        tasks = tuple(
            LocalReplicas(
                servers=tuple(task["servers"]),
                workers=tuple(task["workers"]),
                is_only_machine=len(plain["tasks"]) == 1,
            )
            for task in plain["tasks"]
        )
        return StoredJob(job=JobSpec(name=plain["name"], env=env, roles=roles), tasks=tasks)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError([f"{folder / JOB_FILE}: is not a rendered job: {error}"]) from error


def _split(env: Mapping[str, str], owner: str, hidden: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the variables that may be read by anyone; the others are added to ``hidden``."""
    hidden[owner] = {name: value for name, value in env.items() if is_secret(name)}
    return {name: value for name, value in env.items() if not is_secret(name)}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError([f"{path}: is not JSON: {error}"]) from error
    if not isinstance(found, dict):
        raise ConfigError([f"{path}: expected an object, got {type(found).__name__}"])
    return found
