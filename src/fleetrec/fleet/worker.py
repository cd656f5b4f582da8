"""A worker joins the others."""

import torch

from fleetrec.core.topology import Topology
from fleetrec.fleet.program import Program
from fleetrec.parallel.joining import cluster_of
from fleetrec.parallel.server import ServerStrategy


def connect(program: Program, topology: Topology) -> ServerStrategy:
    """Let a program make its steps with the servers; returns when all workers can."""
    assert program.cluster is not None
    strategy = ServerStrategy(
        program.model,
        optimizer=program.optimizer,
        device=torch.device("cpu"),
        seed=program.seed,
        cluster=cluster_of(topology, program.cluster),
    )
    program.use(strategy)
    if not strategy.recall():
        strategy.gather("start", b"", number=0)  # the first worker has brought the first weights
    return strategy
