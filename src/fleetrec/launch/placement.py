"""Which replicas of a job run on which machine."""

import dataclasses
from collections.abc import Sequence

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers.values import LOOPBACK, is_port
from fleetrec.core.partition import contiguous_block

FIRST_PORT = 6170  # where machines must agree without talking


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LocalReplicas:
    """The replicas of a job that one machine runs, by their numbers."""

    servers: tuple[int, ...]
    workers: tuple[int, ...]
    is_only_machine: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the servers of a job listen, and what one of its machines runs."""

    num_workers: int
    endpoints: tuple[str, ...]  # of all servers; port 0 stands for any free one
    local: LocalReplicas

    @property
    def num_servers(self) -> int:
        """Servers of the job."""
        return len(self.endpoints)


def assign_replicas(
    *,
    num_workers: int,
    num_servers: int = 0,
    endpoints: Sequence[str] = (),
    node_ip: str = LOOPBACK,
    node_ips: Sequence[str] = (LOOPBACK,),
    start_port: int | None = None,
) -> Placement:
    """Assign workers and servers to machines: contiguous blocks, the first ones larger.

    Every machine computes the same, so that the same command on each makes one job.
    """
    if len(set(node_ips)) < len(node_ips):
        raise ConfigError([f"--cluster_node_ips: an address is given twice: {','.join(node_ips)}"])
    if node_ip not in node_ips:
        raise ConfigError(
            [f"--node_ip {node_ip}: not among --cluster_node_ips {','.join(node_ips)}"]
        )
    if endpoints:
        _check_endpoints(endpoints, node_ips)
    else:
        is_free = start_port is None and len(node_ips) == 1
        endpoints = tuple(
            f"{ip}:{0 if is_free else (start_port or FIRST_PORT) + number}"
            for machine, ip in enumerate(node_ips)
            for number in range(len(contiguous_block(num_servers, machine, len(node_ips))))
        )
    own = node_ips.index(node_ip)
    return Placement(
        num_workers=num_workers,
        endpoints=tuple(endpoints),
        local=LocalReplicas(
            servers=tuple(i for i, e in enumerate(endpoints) if e.rpartition(":")[0] == node_ip),
            workers=tuple(contiguous_block(num_workers, own, len(node_ips))),
            is_only_machine=len(node_ips) == 1,
        ),
    )


def _check_endpoints(endpoints: Sequence[str], node_ips: Sequence[str]) -> None:
    for endpoint in endpoints:
        host, _, port = endpoint.rpartition(":")
        if not is_port(port):
            raise ConfigError([f"--endpoints: expected ip:port, got {endpoint!r}"])
        if host not in node_ips:
            raise ConfigError(
                [f"--endpoints: {host} is not among --cluster_node_ips {','.join(node_ips)}"]
            )
    if len(set(endpoints)) < len(endpoints):
        raise ConfigError([f"--endpoints: one is given twice: {','.join(endpoints)}"])
