"""Options of clusters that Slurm manages."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from fleetrec.config.cluster.mpi import Arguments, Port, Word
from fleetrec.config.options import Options

Count = Annotated[int, Field(ge=1)]


class SlurmOptions(Options):
    """What sbatch is asked for.

    ``nodes`` are those of the workers (of ranks: by default one node for each), ``server_nodes``
    those of the servers; without them Slurm packs the tasks. Servers and workers get different
    nodes, each with the resources of its role, as components of a heterogeneous job. With
    ``share_nodes`` they get the same ones, in one allocation. ``arguments`` are further options of
    sbatch, such as ``--exclusive``. The other keys are as for MPI.
    """

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    reservation: Word | None = None
    constraint: Word | None = None
    time: Word | None = None
    nodes: Count | None = None
    server_nodes: Count | None = None
    share_nodes: bool = False
    interface: Word | None = None
    port: Port | None = None
    arguments: Arguments = ()
    max_restarts: Annotated[int, Field(ge=0)] = 3

    @model_validator(mode="after")
    def _one_number_of_nodes(self) -> Self:
        if self.share_nodes and self.server_nodes is not None:
            raise ValueError("server_nodes: with share_nodes, nodes is the number of all")
        return self
