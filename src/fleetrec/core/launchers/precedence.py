"""Precedence of launchers if the environment has variables of several.

Launchers start each other: a cluster manager starts mpirun or torchrun, and any of them FleetRec's
own supervisor. A process inherits the variables of all of them, and those of the innermost launcher
are right. So the first of these groups that is present decides:

1. FleetRec's own launchers
2. torchrun
3. horovodrun and mpirun (Horovod, Open MPI, PMI)
4. cluster managers (Slurm, PyTorchJob, TF_CONFIG, Paddle, Volcano)

Within a group launchers do not start each other. If several are present there, they must agree.
"""

import dataclasses
from collections.abc import Callable

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers import mpi, own, paddle, slurm, tf_config, torch_ranks, volcano
from fleetrec.core.launchers.values import Variables
from fleetrec.core.place import Place


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The environment contract of one launcher; ``variables`` are named in errors."""

    variables: str
    read: Callable[[Variables], Place | None]


OWN = Contract(variables=own.ROLE, read=own.read)
TORCHRUN = Contract(variables=torch_ranks.TORCHRUN_ID, read=torch_ranks.read_torchrun)
HOROVOD = Contract(variables="HOROVOD_RANK and HOROVOD_SIZE", read=mpi.read_horovod)
OPEN_MPI = Contract(
    variables="OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE", read=mpi.read_open_mpi
)
PMI = Contract(variables="PMI_RANK and PMI_SIZE", read=mpi.read_pmi)
SLURM = Contract(variables="SLURM_PROCID and SLURM_NTASKS", read=slurm.read)
PYTORCH_JOB = Contract(variables="RANK and WORLD_SIZE", read=torch_ranks.read_pytorch_job)
TF_CONFIG = Contract(variables=tf_config.TF_CONFIG, read=tf_config.read)
PADDLE = Contract(variables="TRAINING_ROLE and PADDLE_*", read=paddle.read)
VOLCANO = Contract(variables="VC_*_HOSTS", read=volcano.read)

GROUPS = (
    (OWN,),
    (TORCHRUN,),
    (HOROVOD, OPEN_MPI, PMI),
    (PADDLE, TF_CONFIG, PYTORCH_JOB, VOLCANO, SLURM),
)


def place_of(variables: Variables) -> Place | None:
    """Return the place of a process by its environment; None if no launcher started it."""
    for group in GROUPS:
        found = [
            (contract, place)
            for contract in group
            if (place := contract.read(variables)) is not None
        ]
        if found:
            _check_agreement(found)
            return found[0][1]
    return None


def _check_agreement(found: list[tuple[Contract, Place]]) -> None:
    first, place = found[0]
    for other, its in found[1:]:
        if _what(its) != _what(place):
            raise ConfigError(
                [
                    f"{first.variables} make this process {_what(place)}, but {other.variables} "
                    f"make it {_what(its)}; unset those of the launcher that did not start it"
                ]
            )


def _what(place: Place) -> str:
    servers = f" with servers {', '.join(place.server_endpoints)}" if place.server_endpoints else ""
    return f"{place.role} {place.rank} of {place.size}{servers}"
