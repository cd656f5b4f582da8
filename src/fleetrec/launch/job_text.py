"""A job as text, with its secrets: for files that only the owner can read."""

import dataclasses
import json

from fleetrec.core.errors import ConfigError
from fleetrec.launch.job_spec import JobSpec, Resources, RoleSpec


def encode_job(job: JobSpec) -> str:
    """Return a job as JSON."""
    roles = [{**dataclasses.asdict(role), "env": dict(role.env)} for role in job.roles]
    return json.dumps({"name": job.name, "env": dict(job.env), "roles": roles}, indent=1) + "\n"


def decode_job(text: str, *, where: str) -> JobSpec:
    """Return the job that ``encode_job`` wrote; ``where`` is named in errors."""
    try:
        data = json.loads(text)
        return JobSpec(name=data["name"], env=data["env"], roles=tuple(map(_role, data["roles"])))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError([f"{where}: no rendered job: {error}"]) from error


def _role(data: dict[str, object]) -> RoleSpec:
    fields = {**data, "command": tuple(data["command"])}  # type: ignore[arg-type]
    return RoleSpec(**{**fields, "resources": Resources(**data["resources"])})  # type: ignore[arg-type]
