"""From the keys of backend.yaml to a job that engines can render."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fleetrec.core.env import CPU_NUM, IS_NODE, PADDLE_NODE_ROLE, STATE, TOKEN
from fleetrec.launch.job_spec import RANK_MACRO, SERVER, WORKER, JobSpec, Resources, RoleSpec

if TYPE_CHECKING:
    from fleetrec.config.cluster.keys import BackendKeys
    from fleetrec.config.cluster.shape import JobShape

NODE_FILE = "node.json"
STATE_FOLDER = "servers"
PODS = ("kubernetes", "dlc")
SHARED = ("mpi", "slurm", "local")  # engines whose processes run in the job folder itself


def cluster_job(
    keys: BackendKeys, shape: JobShape, *, command: tuple[str, ...], token: str
) -> JobSpec:
    """Return the roles of a job, with their resources and variables."""
    from fleetrec.config.cluster.counts import num_gpus, num_servers, num_workers

    submit = keys.submit
    servers = num_servers(keys, shape)
    gpus = num_gpus(keys, shape)
    cpus = submit.number("worker_cpus")
    # A pod starts a rank for each of its GPUs; elsewhere a replica is a rank.
    replicas_each = gpus if gpus and keys.backend not in PODS else 1
    workers = RoleSpec(
        name=WORKER,
        replicas=num_workers(keys, shape) * replicas_each // (gpus or 1),
        command=command,
        num_ports=0 if servers else 1,
        restart="each" if servers else "all",
        resources=Resources(
            cpus=cpus and max(1, cpus // replicas_each),
            memory_bytes=submit.worker_memory and submit.worker_memory // replicas_each,
            gpus=gpus // replicas_each,
        ),
    )
    env = job_variables(keys, shape)
    if not servers:
        return JobSpec(name=submit.job_name, roles=(workers,), env=env)
    role = RoleSpec(
        name=SERVER,
        replicas=servers,
        command=command,
        env={STATE: f"{STATE_FOLDER}/{RANK_MACRO}"},
        num_ports=1,
        resources=Resources(cpus=submit.number("server_cpus"), memory_bytes=submit.server_memory),
    )
    return JobSpec(name=submit.job_name, roles=(role, workers), env={TOKEN: token, **env})


def job_variables(keys: BackendKeys, shape: JobShape) -> dict[str, str]:
    """Return the variables of all processes of a job."""
    from fleetrec.config.cluster.storage import user_variables

    communicator = keys.config.communicator
    flags = communicator.variables(shape.num_threads)
    written = {communicator.__class__.model_fields[n].alias for n in communicator.model_fields_set}
    return {
        IS_NODE: "1",
        PADDLE_NODE_ROLE: "WORKER",
        CPU_NUM: str(shape.num_threads),
        **{name: value for name, value in flags.items() if shape.has_servers and name in written},
        **user_variables(keys.config),
        **keys.config.env,
    }


def write_node_file(keys: BackendKeys, shape: JobShape, folder: Path) -> Path:
    """Write what a node does before and after the command; it holds no secrets."""
    path = folder / NODE_FILE
    path.write_text(json.dumps(node_plan(keys, shape), indent=1) + "\n", encoding="utf-8")
    return path


def node_plan(keys: BackendKeys, shape: JobShape) -> Mapping[str, object]:
    """Return the data of the node file."""
    from fleetrec.config.cluster.storage import FOLDERS, location_of

    config = keys.config
    is_shared = keys.backend in SHARED if config.shared_folder is None else config.shared_folder
    return {
        "version": 1,
        "fetch": {
            folder: location_of(config, key) for folder, key in FOLDERS if location_of(config, key)
        },
        "output": location_of(config, "output_path"),
        "shared_folder": is_shared,
        "splits_data": shape.has_servers and not is_shared,
    }
