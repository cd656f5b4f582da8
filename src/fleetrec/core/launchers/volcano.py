"""Pods of a Volcano job with the plugins ``svc`` and ``env``: tasks of servers and of workers."""

import re

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers.values import (
    DEFAULT_STORE_PORT,
    MASTER_PORT,
    Variables,
    is_given,
    number,
    optional_number,
)
from fleetrec.core.place import Place

HOSTS = re.compile(r"VC_(\w+)_HOSTS")
INDEXES = ("VC_TASK_INDEX", "VK_TASK_INDEX")
HOSTNAME = "HOSTNAME"
SERVER_PORT = "PADDLE_PORT"
DEFAULT_SERVER_PORT = 6170
SERVERS = ("PS", "PSERVER", "SERVER")
WORKERS = ("CHIEF", "MASTER", "LEADER", "WORKER", "TRAINER")  # ranks are numbered in this order


def read(variables: Variables) -> Place | None:
    """Return the place of a pod.

    Volcano gives every pod the hosts of all tasks and its own index, but not its own task;
    that is the one which lists the pod's own host name.
    """
    index_name = next((name for name in INDEXES if is_given(variables, name)), None)
    hosts = {
        match[1]: [host.strip() for host in given.split(",")]
        for name, given in sorted(variables.items())
        if (match := HOSTS.fullmatch(name)) and given.strip()
    }
    if index_name is None or not hosts:
        return None
    index = number(variables, index_name, least=0)
    workers = [(task, i) for task in WORKERS for i in range(len(hosts.get(task, ())))]
    servers = [(task, i) for task in SERVERS for i in range(len(hosts.get(task, ())))]
    own = (_own_task(variables, hosts, index, index_name), index)
    if not workers or own not in [*workers, *servers]:
        raise ConfigError(
            [
                f"VC_*_HOSTS: expected tasks called {', '.join(WORKERS).lower()} or "
                f"{', '.join(SERVERS).lower()}, got {', '.join(hosts).lower()}"
            ]
        )
    port = optional_number(variables, SERVER_PORT, least=1, default=DEFAULT_SERVER_PORT)
    endpoints = tuple(f"{hosts[task][i]}:{port}" for task, i in servers)
    store_port = optional_number(variables, MASTER_PORT, least=1, default=DEFAULT_STORE_PORT)
    first = hosts[workers[0][0]][0]
    return Place(
        role="server" if own in servers else "worker",
        rank=(servers if own in servers else workers).index(own),
        num_workers=len(workers),
        server_endpoints=endpoints,
        store=None if endpoints else f"{first}:{store_port}",
        is_store_host=not endpoints and own == workers[0],
        launcher="Volcano",
    )


def _own_task(
    variables: Variables, hosts: dict[str, list[str]], index: int, index_name: str
) -> str:
    own = variables.get(HOSTNAME, "").partition(".")[0]
    found = [
        task
        for task, names in hosts.items()
        if index < len(names) and (len(hosts) == 1 or names[index].partition(".")[0] == own)
    ]
    if len(found) != 1:
        listed = ", ".join(f"VC_{task}_HOSTS" for task in hosts)
        raise ConfigError(
            [f"{HOSTNAME} and {index_name}: {own or 'nothing'} is not number {index} of {listed}"]
        )
    return found[0]
