"""What a job for PaddleCloud needs: the keys of backend.yaml, completed."""

from typing import Literal

from pydantic import Field

from fleetrec.config.cluster.keys import BackendKeys
from fleetrec.config.cluster.shape import JobShape
from fleetrec.config.options import Options

Mode = Literal["PS_CPU_MPI", "PS_CPU_K8S", "COLLECTIVE_GPU_K8S", "SINGLE_K8S"]


class PaddleCloudOptions(Options):
    """A job for PaddleCloud: its mode, its resources, and the settings of its nodes."""

    mode: Mode
    ak: str = Field(repr=False)
    sk: str = Field(repr=False)
    job_name: str
    group: str
    priority: str
    nodes: int
    trainers: int
    cpu_cores: int
    gpu_cards: int
    servers: int
    server_cores: int
    storage: dict[str, str] = Field(repr=False)  # as config.ini spells it
    use_python3: int
    num_threads: int
    flags: dict[str, str]
    env: dict[str, str] = Field(repr=False)
    install: str

    @property
    def cluster(self) -> Literal["mpi", "k8s"]:
        """The kind of cluster."""
        return "mpi" if self.mode == "PS_CPU_MPI" else "k8s"

    @property
    def has_gpus(self) -> bool:
        """Whether the job trains on GPUs."""
        return self.gpu_cards > 0


def paddlecloud_options(keys: BackendKeys, shape: JobShape) -> PaddleCloudOptions:
    """Return the options of a checked job."""
    config, submit = keys.config, keys.submit
    mode = _mode(keys, shape)
    is_collective = mode == "COLLECTIVE_GPU_K8S"
    uses_gpus = is_collective or (mode == "SINGLE_K8S" and shape.device != "cpu")
    return PaddleCloudOptions(
        mode=mode,
        ak=submit.ak,
        sk=submit.sk,
        job_name=submit.job_name,
        group=submit.group or "paddle",
        priority=submit.priority or "high",
        nodes=submit.nodes or submit.workers or 1,
        trainers=submit.number("workers") or 1,
        cpu_cores=submit.number("worker_cpus") or (2 if shape.has_servers else 1),
        gpu_cards=(submit.number("worker_gpus") or 1) if uses_gpus else 0,
        servers=submit.number("servers") or 1,
        server_cores=submit.number("server_cpus") or 2,
        storage=_storage(keys, mode),
        use_python3=config.use_python3,
        num_threads=shape.num_threads,
        flags=config.communicator.variables(shape.num_threads),
        env=config.env,
        install=config.install,
    )


def _mode(keys: BackendKeys, shape: JobShape) -> Mode:
    if keys.cluster_type == "mpi":
        return "PS_CPU_MPI"
    if shape.has_servers:
        return "PS_CPU_K8S"
    return "SINGLE_K8S" if shape.fleet_mode == "single" else "COLLECTIVE_GPU_K8S"


def _storage(keys: BackendKeys, mode: Mode) -> dict[str, str]:
    config = keys.config
    common = {"fs_name": config.fs_name, "fs_ugi": config.fs_ugi, "output_path": config.output_path}
    if mode != "PS_CPU_MPI":
        return {
            **common,
            "mount_afs": "true",
            "AFS_REMOTE_MOUNT_POINT": config.afs_remote_mount_point,
            "afs_local_mount_point": "/root/paddlejob/workspace/env_run/afs/",
        }
    return {
        "storage_type": "hdfs",
        "force_reuse_output_path": "True",
        **common,
        "FLAGS_rpc_deadline": "300000",
        "train_data_path": config.train_data_path,
        "test_data_path": config.test_data_path,
        "thirdparty_path": config.thirdparty_path,
    }
