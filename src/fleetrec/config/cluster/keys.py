"""The keys of backend.yaml that say where a job runs, with what data, and with which resources.

Keys of one engine are in a section of its own: see ``sections.py``.
"""

import re
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from fleetrec.config.options import Options
from fleetrec.config.yaml_dialect.section import Int

Backend = Literal["paddlecloud", "mpi", "slurm", "kubernetes", "ray", "dlc", "local"]
ClusterType = Literal["mpi", "k8s"]

DEFAULT_START_CMD = "python -m fleetrec.run -m config.yaml"
DEFAULT_JOB_NAME = "PaddleRecClusterJob"

SYNONYMS = (
    ("workers", "k8s_trainers"),
    ("servers", "k8s_ps_num"),
    ("worker_cpus", "k8s_cpu_cores"),
    ("server_cpus", "k8s_ps_cores"),
    ("worker_gpus", "k8s_gpu_card"),
)
_UNITS = MappingProxyType(
    {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
    | {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
)


def _backend_name(value: Any) -> Any:
    name = value.lower() if isinstance(value, str) else value
    return {"k8s": "kubernetes"}.get(name, name)


def _cluster_type(value: Any) -> Any:
    name = value.lower() if isinstance(value, str) else value
    return {"kubernetes": "k8s"}.get(name, name)


def memory_bytes(value: Any) -> Any:
    """Read ``16Gi``, ``500M`` or a number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgtKMGT]?i?)[bB]?\s*", str(value))
    if found is None or isinstance(value, bool) or found[2].lower() not in _UNITS:
        raise ValueError("expected a size such as 16Gi or 500M")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def _words(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


def _flag(value: Any) -> Any:
    if value not in (0, 1, "0", "1"):
        raise ValueError("expected 0 or 1")
    return int(value)


Memory = Annotated[int, BeforeValidator(memory_bytes), Field(gt=0)]
Flag = Annotated[int, BeforeValidator(_flag)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Count = Annotated[Int, Field(gt=0)]
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


class Communicator(Options):
    """``config.communicator``; three of the flags are by default the number of threads."""

    is_sgd_optimizer: Flag = Field(default=0, alias="FLAGS_communicator_is_sgd_optimizer")
    send_queue_size: Count | None = Field(default=None, alias="FLAGS_communicator_send_queue_size")
    max_merge_var_num: Count | None = Field(
        default=None, alias="FLAGS_communicator_max_merge_var_num"
    )
    max_send_grad_num_before_recv: Count | None = Field(
        default=None, alias="FLAGS_communicator_max_send_grad_num_before_recv"
    )
    thread_pool_size: Count = Field(default=32, alias="FLAGS_communicator_thread_pool_size")
    fake_rpc: Flag = Field(default=0, alias="FLAGS_communicator_fake_rpc")
    rpc_retry_times: Annotated[Int, Field(ge=0)] = Field(default=3, alias="FLAGS_rpc_retry_times")

    def variables(self, num_threads: int) -> dict[str, str]:
        """Return the flags as environment variables."""
        values = self.model_dump(by_alias=True)
        return {
            name: str(num_threads if value is None else value) for name, value in values.items()
        }


class ConfigKeys(Options):
    """``config``: storage, versions and flags of the nodes."""

    paddle_version: str = "1.7.2"
    use_python3: Flag = 1
    fs_name: str = ""
    fs_ugi: str = Field(default="", repr=False)
    output_path: str = ""
    train_data_path: str = ""
    test_data_path: str = ""
    thirdparty_path: str = ""
    afs_remote_mount_point: str = ""
    communicator: Communicator = Communicator()
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    install: str = "fleetrec"
    python: str = ""
    shared_folder: bool | None = None

    @field_validator("paddle_version")
    @classmethod
    def _check_version(cls, value: str) -> str:
        if not re.fullmatch(r"\d+(\.\w+)*", value):
            raise ValueError("expected a version such as 1.7.2")
        return value

    @field_validator("env")
    @classmethod
    def _check_names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ValueError(f"expected names of variables, not {name!r}")
        return env


class SubmitKeys(Options):
    """``submit``: the job, its files and its resources.

    ``workers``, ``servers`` and the keys below them mean the same on every cluster. ``nodes`` and
    ``k8s_*`` are those of PaddleRec.
    """

    ak: str = Field(default="", repr=False)
    sk: str = Field(default="", repr=False)
    priority: str = "high"
    job_name: JobName = DEFAULT_JOB_NAME
    group: str = ""
    start_cmd: Annotated[str, Field(min_length=1)] = DEFAULT_START_CMD
    files: Words = ()
    nodes: Count | None = None
    k8s_trainers: Count | None = None
    k8s_cpu_cores: Count | None = None
    k8s_gpu_card: Count | None = None
    k8s_ps_num: Count | None = None
    k8s_ps_cores: Count | None = None
    workers: Count | None = None
    servers: Count | None = None
    worker_cpus: Count | None = None
    server_cpus: Count | None = None
    worker_gpus: Count | None = None
    worker_memory: Memory | None = None
    server_memory: Memory | None = None

    @field_validator("job_name", mode="before")
    @classmethod
    def _default_name(cls, value: Any) -> Any:
        return value or DEFAULT_JOB_NAME if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_synonyms(self) -> Self:
        for own, other in SYNONYMS:
            values = getattr(self, own), getattr(self, other)
            if None not in values and values[0] != values[1]:
                raise ValueError(
                    f"{own}: {values[0]} and {other}: {values[1]} mean the same, but differ"
                )
        return self

    def number(self, own: str) -> int | None:
        """Return the number under a key, or under the key of PaddleRec with the same meaning."""
        for name in (own, *(other for key, other in SYNONYMS if key == own)):
            value: int | None = getattr(self, name)
            if value is not None:
                return value
        return None


class BackendKeys(Options):
    """A backend.yaml without the sections of single engines."""

    backend: Annotated[Backend, BeforeValidator(_backend_name)]
    cluster_type: Annotated[ClusterType | None, BeforeValidator(_cluster_type)] = None
    config: ConfigKeys = ConfigKeys()
    submit: SubmitKeys = SubmitKeys()
