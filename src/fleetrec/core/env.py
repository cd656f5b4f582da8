"""The only reader of the environment: what a launcher told this process."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetrec.core.errors import ConfigError
from fleetrec.core.processes import Processes
from fleetrec.core.topology import RankPlace, Role, Topology

TOKEN = "FLEETREC_TOKEN"
AUTHORITY = "FLEETREC_TLS_AUTHORITY"
CERTIFICATE = "FLEETREC_TLS_CERTIFICATE"
KEY = "FLEETREC_TLS_KEY"
STATUS = "FLEETREC_STATUS"
STATE = "FLEETREC_STATE"
SNAPSHOT_BYTES = "FLEETREC_SNAPSHOT_BYTES"
FAULTS = "FLEETREC_FAULTS"
TILES = "FLEETREC_TILES"

ROLE = "TRAINING_ROLE"
ENDPOINTS = "PADDLE_PSERVERS_IP_PORT_LIST"
NUM_WORKERS = "PADDLE_TRAINERS_NUM"
WORKER_INDEX = "PADDLE_TRAINER_ID"
WORKER_ENDPOINTS = "PADDLE_TRAINER_ENDPOINTS"
HOST = "POD_IP"
PORT = "PADDLE_PORT"
TF_CONFIG = "TF_CONFIG"
TF_WORKERS = ("chief", "master", "worker")

RANK = "RANK"
NUM_RANKS = "WORLD_SIZE"
LOCAL_RANK = "LOCAL_RANK"
MASTER_HOST = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
HAS_STORE = "TORCHELASTIC_USE_AGENT_STORE"
STORE = "FLEETREC_STORE"

LAUNCHER = "start it with python -m fleetrec.launch_ps, or set the variable"


def has_rank() -> bool:
    """Tell whether torchrun started this process."""
    return RANK in os.environ and NUM_RANKS in os.environ


def read_rank() -> RankPlace:
    """Return which rank this process is."""
    count = _number(os.environ, NUM_RANKS, least=1)
    index = _number(os.environ, RANK, least=0)
    if index >= count:
        raise _wrong(RANK, f"a number below {NUM_RANKS}={count}", str(index))
    own = os.environ.get(STORE)
    has_local = bool(os.environ.get(LOCAL_RANK))
    return RankPlace(
        index=index,
        count=count,
        local_index=_number(os.environ, LOCAL_RANK, least=0) if has_local else index,
        store=own or _master(),
        hosts_store=index == 0 and not own and os.environ.get(HAS_STORE) != str(True),
        has_supervisor=bool(own),
    )


def _master() -> str:
    """Return where torchrun says that ranks find each other."""
    for name in (MASTER_HOST, MASTER_PORT):
        if not os.environ.get(name):
            raise ConfigError([f"{name}: not in the environment; start ranks with torchrun"])
    port = _number(os.environ, MASTER_PORT, least=1)
    return f"{_given(os.environ, MASTER_HOST)}:{port}"


def read_topology() -> Topology:
    """Return the part of this process as its launcher wrote it into the environment."""
    return topology_of(os.environ)


def has_topology() -> bool:
    """Tell whether a launcher of several processes started this one."""
    return ROLE in os.environ


def read_worker_endpoints() -> tuple[str, ...]:
    """Return where workers listen, or nothing: ours do not."""
    return _endpoints(os.environ, WORKER_ENDPOINTS) if os.environ.get(WORKER_ENDPOINTS) else ()


def read_token() -> str | None:
    """Return the secret that the processes of a job share, if they have one."""
    return os.environ.get(TOKEN) or None


def read_authority() -> Path | None:
    """Return the file of certificates that workers believe, if servers use TLS."""
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
    """Return the file in which this process shall tell how it goes, if somebody watches."""
    return _path(STATUS)


def read_state_path() -> Path | None:
    """Return the folder in which this server shall keep what it holds, across its own death."""
    return _path(STATE)


def read_snapshot_bytes() -> int | None:
    """Return how long a server's journal may become before a snapshot replaces it, if told."""
    return _number(os.environ, SNAPSHOT_BYTES, least=1) if SNAPSHOT_BYTES in os.environ else None


def read_faults_path() -> Path | None:
    """Return the folder that orders this process of a job to die somewhere; see core.faults."""
    folder = _path(FAULTS)
    if folder is None or not has_topology():
        return None
    topology = read_topology()
    return folder / f"{topology.role}.{topology.index}"


def allows_tiles() -> bool:
    """Return whether products may use tiles of the processor (AMX); FLEETREC_TILES=0 forbids it."""
    given = os.environ.get(TILES, "1").strip()
    if given not in ("0", "1"):
        raise _wrong(TILES, "0 or 1", given)
    return given == "1"


def environment_with(added: Mapping[str, str], *, unless_set: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: this process' own, with some variables set."""
    return {**unless_set, **os.environ, **added}


def read_processes() -> Processes | None:
    """Return how many processes a launcher says it has started; None if there is no launcher."""
    return processes_of(os.environ)


def processes_of(environ: Mapping[str, str]) -> Processes | None:
    """Read the variables of Paddle's launchers, of TensorFlow's and of torchrun."""
    if ROLE in environ:
        topology = topology_of(environ)
        return Processes(
            num_workers=topology.num_workers, num_servers=topology.num_servers, is_local=False
        )
    if environ.get(TF_CONFIG, "").strip():
        return _processes_of_tensorflow(environ[TF_CONFIG])
    if environ.get(NUM_RANKS, "").strip():
        return Processes(num_workers=_number(environ, NUM_RANKS, least=1), is_local=False)
    return None


def unless_set(settings: Mapping[str, str]) -> list[str]:
    """Return the settings that the environment does not have, as ``NAME=value``."""
    return [f"{name}={value}" for name, value in settings.items() if name not in os.environ]


def topology_of(environ: Mapping[str, str]) -> Topology:
    """Read the variables of Paddle's launchers."""
    role = _role(environ)
    endpoints = _endpoints(environ, ENDPOINTS)
    num_workers = _number(environ, NUM_WORKERS, least=1)
    if role == "worker":
        index = _number(environ, WORKER_INDEX, least=0)
        if index >= num_workers:
            raise _wrong(WORKER_INDEX, f"a number below {NUM_WORKERS}={num_workers}", str(index))
    else:
        index = _server_index(environ, endpoints)
    return Topology(
        role=role,
        index=index,
        num_workers=num_workers,
        num_servers=len(endpoints),
        server_endpoints=endpoints,
    )


def _processes_of_tensorflow(text: str) -> Processes | None:
    """Count the addresses of every role; an evaluator does not train."""
    example = '{"cluster": {"worker": ["host:port", ...], "ps": [...]}, "task": {...}}'
    try:
        cluster: Any = json.loads(text)["cluster"]
    except (ValueError, KeyError, TypeError) as error:
        raise _wrong(TF_CONFIG, example, text) from error
    if not isinstance(cluster, dict) or not all(isinstance(a, list) for a in cluster.values()):
        raise _wrong(TF_CONFIG, example, text)
    counts = {role: len(addresses) for role, addresses in cluster.items()}
    num_workers = sum(counts.get(role, 0) for role in TF_WORKERS)
    if num_workers == 0:
        raise _wrong(TF_CONFIG, f"at least one of {', '.join(TF_WORKERS)}", text)
    return Processes(num_workers=num_workers, num_servers=counts.get("ps") or None, is_local=False)


def _path(name: str) -> Path | None:
    path = os.environ.get(name)
    return Path(path) if path else None


def _role(environ: Mapping[str, str]) -> Role:
    given = _given(environ, ROLE)
    if given == "TRAINER":
        return "worker"
    if given == "PSERVER":
        return "server"
    raise _wrong(ROLE, "TRAINER or PSERVER", given)


def _server_index(environ: Mapping[str, str], endpoints: tuple[str, ...]) -> int:
    own = f"{_given(environ, HOST)}:{_given(environ, PORT)}"
    if own not in endpoints:
        raise ConfigError(
            [
                f"{HOST} and {PORT}: {own} is not in {ENDPOINTS}={','.join(endpoints)}; "
                "set both to the server's own place in that list"
            ]
        )
    return endpoints.index(own)


def _endpoints(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    given = _given(environ, name)
    endpoints = tuple(part.strip() for part in given.split(","))
    for endpoint in endpoints:
        host, _, port = endpoint.rpartition(":")
        if not host or not is_port(port):
            raise _wrong(name, "host:port, separated by commas", given)
    if len(set(endpoints)) < len(endpoints):
        raise _wrong(name, "every host:port once", given)
    return endpoints


def is_port(text: str) -> bool:
    """Tell whether a text is the number of a port."""
    return text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 16


def _number(environ: Mapping[str, str], name: str, *, least: int) -> int:
    given = _given(environ, name)
    if not (given.isascii() and given.isdecimal()) or int(given) < least:
        raise _wrong(name, f"a whole number of at least {least}", given)
    return int(given)


def _given(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise ConfigError([f"{name}: not in the environment; {LAUNCHER}"])
    return value


def _wrong(name: str, expected: str, came: str) -> ConfigError:
    return ConfigError([f"{name}: expected {expected}, got {came!r} in the environment"])
