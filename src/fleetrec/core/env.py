"""The only reader of the environment."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers import paddle
from fleetrec.core.launchers.mpi import OPEN_MPI_RANK
from fleetrec.core.launchers.precedence import place_of
from fleetrec.core.launchers.slurm import RANK as SLURM_TASK
from fleetrec.core.launchers.values import is_given, number, wrong
from fleetrec.core.place import Place

TOKEN = "FLEETREC_TOKEN"
AUTHORITY = "FLEETREC_TLS_AUTHORITY"
CERTIFICATE = "FLEETREC_TLS_CERTIFICATE"
KEY = "FLEETREC_TLS_KEY"
STATUS = "FLEETREC_STATUS"
STATE = "FLEETREC_STATE"
SNAPSHOT_BYTES = "FLEETREC_SNAPSHOT_BYTES"
FAULTS = "FLEETREC_FAULTS"
TILES = "FLEETREC_TILES"
LISTEN_HOST = "FLEETREC_LISTEN_HOST"
IS_NODE = "FLEETREC_IS_NODE"
OWN_DATA = "FLEETREC_OWN_DATA"
PADDLE_NODE_ROLE = "PADDLE_PADDLEREC_ROLE"
PADDLE_CLUSTER_TYPE = "PADDLEREC_CLUSTER_TYPE"
CPU_NUM = "CPU_NUM"
SLURM_LAUNCH_ADDRESS = "SLURM_LAUNCH_NODE_IPADDR"


CLUSTER_SECRETS = (("ak", "FLEETREC_AK"), ("sk", "FLEETREC_SK"), ("fs_ugi", "FLEETREC_FS_UGI"))
COMMUNICATOR_FLAGS = "FLAGS_communicator_"
RPC_FLAGS = ("FLAGS_rpc_retry_times", "FLAGS_rpc_deadline")


def read_place() -> Place | None:
    """Return who this process is; None if no launcher started it."""
    place = place_of(os.environ)
    own_data = _own_data()
    if place is None or own_data is None:
        return place
    return dataclasses.replace(place, own_data=own_data)


def read_worker_endpoints() -> tuple[str, ...]:
    """Return the endpoints of workers, if set; FleetRec's launchers set none."""
    return paddle.worker_endpoints(os.environ)


def read_token() -> str | None:
    """Return the secret that the processes of a job share, if they have one."""
    return os.environ.get(TOKEN) or None


def read_authority() -> Path | None:
    """Return the file of certificates that workers trust, if servers use TLS."""
    return _path(AUTHORITY)


def read_certificate() -> tuple[Path, Path] | None:
    """Return the files of a server's certificate and its key, if it uses TLS."""
    certificate, key = _path(CERTIFICATE), _path(KEY)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ConfigError([f"{CERTIFICATE} and {KEY}: expected both in the environment, or none"])
    return certificate, key


def read_status_path() -> Path | None:
    """Return the file to which this process reports its status, if a launcher watches it."""
    return _path(STATUS)


def read_state_path() -> Path | None:
    """Return the folder of this server's durable state."""
    return _path(STATE)


def read_listen_host() -> str | None:
    """Return the address on which a server listens, if it is not that of its endpoint.

    Where endpoints are names, a server may start before its own name is known.
    """
    return os.environ.get(LISTEN_HOST, "").strip() or None


def read_snapshot_bytes() -> int | None:
    """Return the journal size in bytes at which a server takes a snapshot, if set."""
    return number(os.environ, SNAPSHOT_BYTES, least=1) if SNAPSHOT_BYTES in os.environ else None


def read_faults_path() -> Path | None:
    """Return the folder with the faults to inject into this process; see core.fault_points."""
    folder = _path(FAULTS)
    if folder is None:
        return None
    place = read_place()
    return folder / ("process.0" if place is None else f"{place.role}.{place.rank}")


def allows_tiles() -> bool:
    """Return whether products may use tiles of the processor (AMX); FLEETREC_TILES=0 forbids it."""
    given = os.environ.get(TILES, "1").strip()
    if given not in ("0", "1"):
        raise wrong(TILES, "0 or 1", given)
    return given == "1"


def is_cluster_node() -> bool:
    """Return whether this process is on a node of a submitted job: it trains, and does not submit.

    FLEETREC_IS_NODE=1 says so, and PADDLE_PADDLEREC_ROLE=WORKER as for PaddleRec.
    """
    own = os.environ.get(IS_NODE, "").strip()
    if own not in ("", "0", "1"):
        raise wrong(IS_NODE, "0 or 1", own)
    role = os.environ.get(PADDLE_NODE_ROLE, "").strip().upper() or "MASTER"
    if role not in ("MASTER", "WORKER"):
        raise wrong(PADDLE_NODE_ROLE, "MASTER or WORKER", role)
    return own == "1" or role == "WORKER"


def read_communicator_flags() -> dict[str, str]:
    """Return the flags of Paddle's communicator that are set; cluster jobs pass them this way."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(COMMUNICATOR_FLAGS) or name in RPC_FLAGS
    }


def read_cpu_num() -> int | None:
    """Return the number of threads of a worker that Paddle's variable CPU_NUM gives, if set."""
    return number(os.environ, CPU_NUM, least=1) if is_given(os.environ, CPU_NUM) else None


def read_task_number() -> int:
    """Return the number of this task among those that mpirun or srun has started."""
    for name in (OPEN_MPI_RANK, SLURM_TASK):
        if is_given(os.environ, name):
            return number(os.environ, name, least=0)
    raise ConfigError([f"{OPEN_MPI_RANK}, {SLURM_TASK}: none is set; start this by mpirun or srun"])


def read_launch_address() -> list[str]:
    """Return the address of the node on which srun was called, if srun started this process."""
    given = os.environ.get(SLURM_LAUNCH_ADDRESS, "").strip()
    return [given] if given else []


def read_cluster_secrets() -> dict[str, str]:
    """Return the secrets of backend.yaml that are in the environment instead, by their keys."""
    found = {key: os.environ.get(name, "").strip() for key, name in CLUSTER_SECRETS}
    return {key: value for key, value in found.items() if value}


def environment_with(added: Mapping[str, str], *, unless_set: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: that of this process, with some variables set."""
    return {**unless_set, **os.environ, **added}


def _own_data() -> str | None:
    """Return the folder with training data of this worker alone.

    FLEETREC_OWN_DATA names it. On MPI clusters of PaddleCloud every node gets its files.
    """
    if os.environ.get(OWN_DATA):
        return os.environ[OWN_DATA]
    is_mpi = os.environ.get(PADDLE_CLUSTER_TYPE, "").strip().upper() == "MPI"
    return str(Path("train_data").absolute()) if is_mpi else None


def _path(name: str) -> Path | None:
    path = os.environ.get(name)
    return Path(path) if path else None
