"""Processes that mpirun or horovodrun started: Open MPI, launchers with PMI, Horovod."""

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers.own import place_by_rank
from fleetrec.core.launchers.values import (
    LOOPBACK,
    Variables,
    is_given,
    master_store,
    optional_number,
    rank_and_size,
)
from fleetrec.core.place import Place

OPEN_MPI_RANK = "OMPI_COMM_WORLD_RANK"
OPEN_MPI_SIZE = "OMPI_COMM_WORLD_SIZE"
OPEN_MPI_LOCAL_RANK = "OMPI_COMM_WORLD_LOCAL_RANK"
OPEN_MPI_LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE"
OPEN_MPI_JOBS = ("PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports")
PMI_RANK = "PMI_RANK"
PMI_SIZE = "PMI_SIZE"
PMI_LOCAL_RANK = "MPI_LOCALRANKID"
PMI_LOCAL_SIZE = "MPI_LOCALNRANKS"
PMIX_RANK = "PMIX_RANK"
HOROVOD_RANK = "HOROVOD_RANK"
HOROVOD_SIZE = "HOROVOD_SIZE"
HOROVOD_LOCAL_RANK = "HOROVOD_LOCAL_RANK"
HOROVOD_LOCAL_SIZE = "HOROVOD_LOCAL_SIZE"
HOROVOD_HOST = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
HOROVOD_PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
HOROVOD_ELASTIC = "HOROVOD_ELASTIC"
ADVICE = "with several machines, export it with the address of the machine of rank 0"


def read_open_mpi(variables: Variables) -> Place | None:
    """Return the place of a rank that mpirun of Open MPI started."""
    if not is_given(variables, OPEN_MPI_RANK):
        return None
    return _rank(
        variables,
        names=(OPEN_MPI_RANK, OPEN_MPI_SIZE, OPEN_MPI_LOCAL_RANK, OPEN_MPI_LOCAL_SIZE),
        job="".join(variables.get(name, "") for name in OPEN_MPI_JOBS),
        launcher="Open MPI",
    )


def read_pmi(variables: Variables) -> Place | None:
    """Return the place of a rank that mpiexec of MPICH or Intel MPI started.

    srun sets PMI variables, too; then Slurm's own variables have precedence.
    """
    if is_given(variables, PMI_RANK):
        same_as_slurm = ("SLURM_PROCID", "SLURM_NTASKS")
        if [variables.get(name) for name in same_as_slurm] == [
            variables.get(name) for name in (PMI_RANK, PMI_SIZE)
        ]:
            return None
        return _rank(
            variables,
            names=(PMI_RANK, PMI_SIZE, PMI_LOCAL_RANK, PMI_LOCAL_SIZE),
            job="",
            launcher="MPI",
        )
    if is_given(variables, PMIX_RANK) and not any(
        is_given(variables, name) for name in (OPEN_MPI_RANK, "SLURM_PROCID")
    ):
        raise ConfigError(
            [
                f"{PMIX_RANK}: gives the rank of this process, but nothing gives the number of "
                "ranks; start them with torchrun, mpirun of Open MPI or srun"
            ]
        )
    return None


def read_horovod(variables: Variables) -> Place | None:
    """Return the place of a rank that horovodrun started."""
    if not is_given(variables, HOROVOD_RANK):
        return None
    if is_given(variables, HOROVOD_ELASTIC) and variables[HOROVOD_ELASTIC] != "0":
        raise ConfigError(
            [f"{HOROVOD_ELASTIC}: the number of ranks must not change; start it without elastic"]
        )
    return _rank(
        variables,
        names=(HOROVOD_RANK, HOROVOD_SIZE, HOROVOD_LOCAL_RANK, HOROVOD_LOCAL_SIZE),
        job=variables.get(HOROVOD_PORT, ""),
        launcher="Horovod",
        host=variables.get(HOROVOD_HOST, "").strip() or None,
    )


def _rank(
    variables: Variables,
    *,
    names: tuple[str, str, str, str],
    job: str,
    launcher: str,
    host: str | None = None,
) -> Place:
    rank_name, size_name, local_rank, local_size = names
    rank, size = rank_and_size(variables, rank_name, size_name)
    local = optional_number(variables, local_rank, least=0, default=0)
    place = place_by_rank(variables, rank=rank, size=size, local_rank=local, launcher=launcher)
    if place is not None:
        return place
    is_one_machine = optional_number(variables, local_size, least=1, default=0) == size
    if is_one_machine or size == 1:
        host = LOOPBACK
    return Place(
        rank=rank,
        num_workers=size,
        local_rank=local,
        store=master_store(variables, host=host, job=job, advice=ADVICE),
        is_store_host=rank == 0,
        launcher=launcher,
    )
