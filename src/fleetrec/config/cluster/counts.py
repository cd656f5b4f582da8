"""How many processes a backend.yaml asks for, whichever keys it uses."""

from fleetrec.config.cluster.keys import BackendKeys
from fleetrec.config.cluster.shape import JobShape


def num_workers(keys: BackendKeys, shape: JobShape) -> int:
    """Return the number of worker processes: one for each GPU of each node that has some."""
    machines = keys.submit.number("workers")
    if machines is None or (keys.backend == "mpi" and keys.submit.workers is None):
        machines = keys.submit.nodes or machines or 1
    return machines * (num_gpus(keys, shape) or 1)


def num_servers(keys: BackendKeys, shape: JobShape) -> int:
    """Return the number of servers; of ``nodes``, each runs one."""
    if not shape.has_servers:
        return 0
    servers = keys.submit.number("servers")
    if servers is None or (keys.backend == "mpi" and keys.submit.servers is None):
        servers = keys.submit.nodes or servers or 1
    return servers


def num_gpus(keys: BackendKeys, shape: JobShape) -> int:
    """Return the number of GPUs of a node of workers; 0 if they train on the CPU."""
    given = keys.submit.number("worker_gpus")
    if shape.has_servers or shape.device == "cpu":
        return 0
    return given or (1 if shape.device == "gpu" else 0)
