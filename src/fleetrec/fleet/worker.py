"""A worker joins the others."""

import torch

from fleetrec.core.env import read_authority, read_token
from fleetrec.core.place import Place
from fleetrec.fleet.program import Program
from fleetrec.parallel.cluster import join_cluster
from fleetrec.parallel.geo import GeoStrategy
from fleetrec.parallel.server import ServerStrategy


def connect(program: Program, place: Place) -> ServerStrategy:
    """Let a program make its steps with the servers; returns when all workers can."""
    assert program.cluster is not None
    cluster = join_cluster(program.cluster, place, token=read_token(), authority=read_authority())
    kind = GeoStrategy if cluster.mode == "geo" else ServerStrategy
    strategy = kind(
        program.model,
        optimizer=program.optimizer,
        device=torch.device("cpu"),
        seed=program.seed,
        cluster=cluster,
    )
    program.use(strategy)
    if not strategy.recall():
        strategy.gather("start", b"", number=0)  # the first worker has brought the first weights
    return strategy
