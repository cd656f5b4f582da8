"""``TF_CONFIG``, as TFJobs of Kubeflow and other launchers of TensorFlow set it."""

import json
from typing import Any

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers.values import (
    Variables,
    check_endpoints,
    is_given,
    num_before_on_host,
    wrong,
)
from fleetrec.core.place import Place

TF_CONFIG = "TF_CONFIG"
WORKERS = ("chief", "master", "worker")  # ranks are numbered in this order
SERVERS = "ps"
EVALUATOR = "evaluator"
EXAMPLE = (
    '{"cluster": {"worker": ["host:port", ...], "ps": [...]}, '
    '"task": {"type": "worker", "index": 0}}'
)


def read(variables: Variables) -> Place | None:
    """Return the place of a task: a worker of servers if the cluster has ps, else a rank."""
    if not is_given(variables, TF_CONFIG):
        return None
    given = variables[TF_CONFIG]
    cluster, task, index = _decode(given)
    workers = [address for role in WORKERS for address in cluster.get(role, ())]
    servers = tuple(cluster.get(SERVERS, ()))
    if not workers:
        raise wrong(TF_CONFIG, f"at least one of {', '.join(WORKERS)}", given)
    if task == EVALUATOR:
        raise ConfigError(
            [
                f"{TF_CONFIG}: this process is the {EVALUATOR}, but the first worker evaluates "
                "every checkpoint; start the job without it"
            ]
        )
    if task not in (*WORKERS, SERVERS) or index >= len(cluster.get(task, ())):
        raise wrong(TF_CONFIG, "a task of the cluster", f"{task} {index}")
    if task == SERVERS:
        return Place(
            role="server",
            rank=index,
            num_workers=len(workers),
            server_endpoints=servers,
            local_rank=num_before_on_host(servers, index),
            launcher=TF_CONFIG,
        )
    rank = index + sum(len(cluster.get(role, ())) for role in WORKERS[: WORKERS.index(task)])
    return Place(
        rank=rank,
        num_workers=len(workers),
        local_rank=num_before_on_host(workers, rank),
        server_endpoints=servers,
        store=None if servers else workers[0],
        is_store_host=not servers and rank == 0,
        launcher=TF_CONFIG,
    )


def _decode(given: str) -> tuple[dict[str, list[str]], str, int]:
    try:
        data: Any = json.loads(given)
        cluster, task, index = data["cluster"], data["task"]["type"], data["task"].get("index", 0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise wrong(TF_CONFIG, EXAMPLE, given) from error
    is_cluster = isinstance(cluster, dict) and all(
        isinstance(addresses, list) and all(isinstance(address, str) for address in addresses)
        for addresses in cluster.values()
    )
    is_index = str(index).isascii() and str(index).isdecimal()
    if not is_cluster or not isinstance(task, str) or not is_index:
        raise wrong(TF_CONFIG, EXAMPLE, given)
    for addresses in cluster.values():
        check_endpoints(TF_CONFIG, addresses, given)
    return cluster, task, int(index)
