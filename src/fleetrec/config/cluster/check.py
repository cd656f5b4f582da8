"""Whether a backend.yaml and the job that it submits fit together."""

from collections.abc import Iterator

from fleetrec.config.cluster.counts import num_workers
from fleetrec.config.cluster.keys import BackendKeys
from fleetrec.config.cluster.shape import JobShape
from fleetrec.config.cluster.storage import storage_problems
from fleetrec.config.document import Location
from fleetrec.core.env import CLUSTER_SECRETS

Found = Iterator[tuple[Location, str]]

# Keys that mean the same everywhere, and therefore say something even where they do not apply.
OWN_SERVER_KEYS = ("servers", "server_cpus", "server_memory")
REQUIRED = (("config", "fs_name"), ("config", "fs_ugi"), ("submit", "ak"), ("submit", "sk"))


def check_backend(keys: BackendKeys, shape: JobShape | None) -> Found:
    """Yield what is wrong: locations in backend.yaml, and problems.

    Without a ``shape``, the job itself has problems, and only the file is checked.
    """
    yield from _check_cluster_type(keys)
    if keys.backend == "paddlecloud":
        yield from _check_paddlecloud(keys)
    else:
        yield from storage_problems(keys.config)
    if shape is None:
        return
    yield from _check_mode(keys, shape)
    yield from _check_counts(keys, shape)


def _check_cluster_type(keys: BackendKeys) -> Found:
    at = ("cluster_type",)
    if keys.backend == "paddlecloud":
        if keys.cluster_type is None:
            yield at, "required with backend: PaddleCloud; expected mpi or k8s"
        return
    fitting = {"mpi": "mpi", "kubernetes": "k8s"}.get(keys.backend)
    if keys.cluster_type not in (None, fitting):
        yield (
            at,
            f"{keys.cluster_type} does not fit backend: {keys.backend}; leave it out, or use "
            "backend: PaddleCloud",
        )


def _check_paddlecloud(keys: BackendKeys) -> Found:
    names = dict(CLUSTER_SECRETS)
    for section, key in REQUIRED:
        if not getattr(getattr(keys, section), key):
            variable = f", or set {names[key]} in the environment" if key in names else ""
            yield (section, key), f"required with backend: PaddleCloud, but empty{variable}"
    if keys.config.fs_ugi and "," not in keys.config.fs_ugi:
        yield ("config", "fs_ugi"), "expected user,password"
    if not keys.submit.files:
        yield ("submit", "files"), "required with backend: PaddleCloud; expected files or patterns"
    if keys.cluster_type == "mpi" and not keys.config.train_data_path:
        yield ("config", "train_data_path"), "required with cluster_type: mpi, but empty"


def _fits_paddlecloud(cluster_type: str, shape: JobShape) -> bool:
    allowed = {"mpi": [("ps", "cpu")], "k8s": [("ps", "cpu"), ("collective", "gpu")]}[cluster_type]
    if shape.fleet_mode == "single":
        return cluster_type == "k8s"
    devices = ("cpu", "gpu") if shape.device is None else (shape.device,)
    return any((shape.fleet_mode, device) in allowed for device in devices)


def _check_mode(keys: BackendKeys, shape: JobShape) -> Found:
    if keys.backend != "paddlecloud":
        if shape.has_servers and shape.device == "gpu":
            yield (
                ("backend",),
                "workers of parameter servers compute on the CPU, but the job has fleet_mode: ps, "
                "device: gpu; use device: cpu, or fleet_mode: collective",
            )
        return
    if keys.cluster_type is not None and not _fits_paddlecloud(keys.cluster_type, shape):
        device = shape.device or "cpu"
        wanted = {
            "mpi": "fleet_mode: ps with device: cpu",
            "k8s": "fleet_mode: ps with device: cpu, or fleet_mode: collective with device: gpu",
        }[keys.cluster_type]
        yield (
            ("cluster_type",),
            f"PaddleCloud's {keys.cluster_type} trains {wanted}; the job has fleet_mode: "
            f"{shape.fleet_mode}, device: {device}",
        )


def _check_counts(keys: BackendKeys, shape: JobShape) -> Found:
    submit = keys.submit
    if not shape.has_servers:
        for key in OWN_SERVER_KEYS:
            if getattr(submit, key) is not None:
                yield ("submit", key), f"the job has no servers (fleet_mode: {shape.fleet_mode})"
    if submit.worker_gpus is not None and (shape.device == "cpu" or shape.has_servers):
        yield ("submit", "worker_gpus"), "the job trains on the CPU"
    count = num_workers(keys, shape)
    if shape.fleet_mode == "single" and count > 1:
        written = ("workers", "k8s_trainers", "nodes", "worker_gpus", "k8s_gpu_card")
        key = next((key for key in written if getattr(submit, key) is not None), "workers")
        yield (
            ("submit", key),
            f"{count} workers, but the runners of the job are one process; use class: "
            "cluster_train, or 1 worker",
        )
