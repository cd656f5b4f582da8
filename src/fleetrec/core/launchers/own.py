"""The variables that FleetRec's own launchers write, and their reader."""

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers.values import (
    MASTER_HOST,
    MASTER_PORT,
    Variables,
    check_endpoints,
    is_given,
    number,
    optional_number,
    rank_and_size,
    text,
    wrong,
)
from fleetrec.core.place import Place, Role

ROLE = "FLEETREC_ROLE"
RANK = "FLEETREC_RANK"
NUM_WORKERS = "FLEETREC_NUM_WORKERS"
LOCAL_RANK = "FLEETREC_LOCAL_RANK"
SERVERS = "FLEETREC_SERVERS"
STORE = "FLEETREC_STORE"
IS_STORE_HOST = "FLEETREC_IS_STORE_HOST"
INCARNATION = "FLEETREC_INCARNATION"
IS_SUPERVISED = "FLEETREC_IS_SUPERVISED"
LAUNCHER = "FLEETREC_LAUNCHER"


def read(variables: Variables) -> Place | None:
    """Return the place that ``place_environment`` wrote."""
    if not is_given(variables, ROLE):
        return None
    servers = _endpoints(variables, SERVERS)
    (store,) = _endpoints(variables, STORE)[:1] or (None,)
    num_workers = number(variables, NUM_WORKERS, least=1)
    return Place(
        role=_role(variables),
        rank=_rank(variables, num_servers=len(servers)),
        num_workers=num_workers,
        local_rank=optional_number(variables, LOCAL_RANK, least=0, default=0),
        server_endpoints=servers,
        store=store,
        is_store_host=_flag(variables, IS_STORE_HOST),
        incarnation=optional_number(variables, INCARNATION, least=0, default=0),
        is_supervised=_flag(variables, IS_SUPERVISED),
        launcher=variables.get(LAUNCHER, "") or "fleetrec",
    )


def place_by_rank(
    variables: Variables, *, rank: int, size: int, local_rank: int, launcher: str
) -> Place | None:
    """Return the place of a rank in a job whose first ranks are servers; None if none are.

    FLEETREC_SERVERS makes them servers, for launchers that know ranks but no roles.
    """
    servers = _endpoints(variables, SERVERS)
    if not servers:
        return None
    if len(servers) >= size:
        raise ConfigError(
            [
                f"{SERVERS}: lists {len(servers)} servers, which are the first ranks of "
                f"{launcher}, but it has started {size} processes; expected at least one more"
            ]
        )
    is_server = rank < len(servers)
    return Place(
        role="server" if is_server else "worker",
        rank=rank if is_server else rank - len(servers),
        num_workers=size - len(servers),
        local_rank=local_rank,
        server_endpoints=servers,
        launcher=launcher,
    )


def place_environment(place: Place) -> dict[str, str]:
    """Return the environment of a process; reading it gives the same place.

    Programs of users read the variables of Paddle's and of torch's launchers, so these are there
    too.
    """
    own = {
        ROLE: place.role,
        RANK: str(place.rank),
        NUM_WORKERS: str(place.num_workers),
        LOCAL_RANK: str(place.local_rank),
        SERVERS: ",".join(place.server_endpoints),
        STORE: place.store or "",
        IS_STORE_HOST: str(int(place.is_store_host)),
        INCARNATION: str(place.incarnation),
        IS_SUPERVISED: str(int(place.is_supervised)),
        LAUNCHER: place.launcher,
    }
    return {**own, **(_for_paddle(place) if place.server_endpoints else _for_torch(place))}


def _for_paddle(place: Place) -> dict[str, str]:
    common = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(place.server_endpoints),
        "PADDLE_TRAINERS_NUM": str(place.num_workers),
    }
    if place.role == "worker":
        return {**common, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(place.rank)}
    host, _, port = place.server_endpoints[place.rank].rpartition(":")
    return {**common, "TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": port}


def _for_torch(place: Place) -> dict[str, str]:
    found = {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.num_workers),
        "LOCAL_RANK": str(place.local_rank),
    }
    if place.store is not None:
        found[MASTER_HOST], _, found[MASTER_PORT] = place.store.rpartition(":")
    return found


def _role(variables: Variables) -> Role:
    given = text(variables, ROLE)
    if given == "worker":
        return "worker"
    if given == "server":
        return "server"
    raise wrong(ROLE, "worker or server", given)


def _rank(variables: Variables, *, num_servers: int) -> int:
    if _role(variables) == "worker":
        return rank_and_size(variables, RANK, NUM_WORKERS)[0]
    rank = number(variables, RANK, least=0)
    if rank >= num_servers:
        raise wrong(RANK, f"a number below the {num_servers} servers of {SERVERS}", str(rank))
    return rank


def _endpoints(variables: Variables, name: str) -> tuple[str, ...]:
    given = variables.get(name, "").strip()
    found = tuple(given.split(",")) if given else ()
    check_endpoints(name, found, given)
    return found


def _flag(variables: Variables, name: str) -> bool:
    given = variables.get(name, "").strip()
    if given not in ("", "0", "1"):
        raise wrong(name, "0 or 1", given)
    return given == "1"
