"""The variables of Paddle's launchers and of PaddleCloud: servers and trainers, or ranks."""

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers.values import (
    Variables,
    endpoints,
    is_given,
    num_before_on_host,
    number,
    rank_and_size,
    text,
    wrong,
)
from fleetrec.core.place import Place

ROLE = "TRAINING_ROLE"
SERVERS = "PADDLE_PSERVERS_IP_PORT_LIST"
NUM_WORKERS = "PADDLE_TRAINERS_NUM"
WORKER_INDEX = "PADDLE_TRAINER_ID"
WORKER_ENDPOINTS = "PADDLE_TRAINER_ENDPOINTS"
OWN_ENDPOINT = "PADDLE_CURRENT_ENDPOINT"
HOST = "POD_IP"
PORT = "PADDLE_PORT"
ADVICE = "start it with python -m fleetrec.launch_ps, or set the variable"


def read(variables: Variables) -> Place | None:
    """Return the place of a server or trainer, or of a rank of a collective job."""
    if is_given(variables, WORKER_ENDPOINTS) and not is_given(variables, SERVERS):
        return _read_rank(variables)
    return _read_ps(variables) if is_given(variables, ROLE) else None


def worker_endpoints(variables: Variables) -> tuple[str, ...]:
    """Return where workers listen, or nothing: those of FleetRec do not."""
    if not is_given(variables, WORKER_ENDPOINTS):
        return ()
    return tuple(endpoints(variables, WORKER_ENDPOINTS))


def _read_ps(variables: Variables) -> Place:
    role = text(variables, ROLE, advice=ADVICE)
    if role not in ("TRAINER", "PSERVER"):
        raise wrong(ROLE, "TRAINER or PSERVER", role)
    servers = tuple(endpoints(variables, SERVERS, advice=ADVICE))
    num_workers = number(variables, NUM_WORKERS, least=1, advice=ADVICE)
    if role == "TRAINER":
        rank, _ = rank_and_size(variables, WORKER_INDEX, NUM_WORKERS, advice=ADVICE)
        return Place(
            rank=rank, num_workers=num_workers, server_endpoints=servers, launcher="Paddle"
        )
    host, port = (text(variables, name, advice=ADVICE) for name in (HOST, PORT))
    own = f"{host}:{port}"
    if own not in servers:
        raise ConfigError(
            [
                f"{HOST} and {PORT}: {own} is not in {SERVERS}={','.join(servers)}; "
                "set both to the server's own entry of that list"
            ]
        )
    return Place(
        role="server",
        rank=servers.index(own),
        num_workers=num_workers,
        server_endpoints=servers,
        launcher="Paddle",
    )


def _read_rank(variables: Variables) -> Place:
    """Ranks listen at endpoints of their own; the first one's is where they rendezvous."""
    found = endpoints(variables, WORKER_ENDPOINTS)
    rank = number(variables, WORKER_INDEX, least=0, advice=ADVICE)
    if rank >= len(found):
        raise wrong(
            WORKER_INDEX, f"a number below the {len(found)} of {WORKER_ENDPOINTS}", str(rank)
        )
    own = variables.get(OWN_ENDPOINT, "").strip() or found[rank]
    if own != found[rank]:
        raise wrong(OWN_ENDPOINT, f"{found[rank]}, number {rank} of {WORKER_ENDPOINTS}", own)
    if is_given(variables, NUM_WORKERS):
        count = number(variables, NUM_WORKERS, least=1)
        if count != len(found):
            raise wrong(NUM_WORKERS, f"{len(found)}, as {WORKER_ENDPOINTS} has", str(count))
    return Place(
        rank=rank,
        num_workers=len(found),
        local_rank=num_before_on_host(found, rank),
        store=found[0],
        is_store_host=rank == 0,
        launcher="Paddle",
    )
