"""Options of jobs on Ray."""

from typing import Any, Literal

from pydantic import Field, field_validator

from fleetrec.config.options import Options


class RayOptions(Options):
    """Where a Ray cluster is, and how the processes of a job are placed on it.

    ``address`` is that of the dashboard, to which jobs are submitted. ``strategy`` is that of the
    placement group: whether processes share machines. ``work_path`` is a folder on every machine;
    each process runs in a folder of its own there. Servers keep their state in ``state_path``,
    which all machines share; without it in ``work_path``, and a server whose machine is lost ends
    the job. ``runtime_env`` is Ray's, such as pip packages.
    """

    address: str = Field(default="http://127.0.0.1:8265", pattern=r"^(https?|ray)://.+")
    strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "SPREAD"
    work_path: str = Field(default="/tmp/fleetrec-jobs", pattern=r"^/.+")
    state_path: str | None = Field(default=None, pattern=r"^/.+")
    max_restarts: int = Field(default=3, ge=0)
    grace_s: int = Field(default=60, ge=0)  # to save, when the job is asked to end
    runtime_env: dict[str, Any] = Field(default_factory=dict)

    @field_validator("runtime_env")
    @classmethod
    def _check_own_keys(cls, given: dict[str, Any]) -> dict[str, Any]:
        for key in ("working_dir", "env_vars", "excludes"):
            if key in given:
                raise ValueError(f"{key} is that of the job folder; use submit.files, config.env")
        return given
