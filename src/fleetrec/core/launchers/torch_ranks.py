"""Ranks by the variables of torch: started by torchrun, or by a PyTorchJob of Kubeflow."""

from fleetrec.core.launchers.values import (
    MASTER_HOST,
    MASTER_PORT,
    Variables,
    is_given,
    number,
    optional_number,
    rank_and_size,
    text,
)
from fleetrec.core.place import Place

RANK = "RANK"
SIZE = "WORLD_SIZE"
LOCAL_RANK = "LOCAL_RANK"
TORCHRUN_ID = "TORCHELASTIC_RUN_ID"
AGENT_HAS_STORE = "TORCHELASTIC_USE_AGENT_STORE"
ADVICE = "start ranks with torchrun"


def read_torchrun(variables: Variables) -> Place | None:
    """Return the place of a rank that torchrun started.

    ``incarnation`` stays 0: torchrun counts restarts on each machine for itself, so the numbers
    of two machines may differ. Ranks count their groups at the agent's store instead.
    """
    return _read(variables, "torchrun") if is_given(variables, TORCHRUN_ID) else None


def read_pytorch_job(variables: Variables) -> Place | None:
    """Return the place of a rank with RANK and WORLD_SIZE from something else than torchrun."""
    return None if is_given(variables, TORCHRUN_ID) else _read(variables, "PyTorchJob")


def _read(variables: Variables, launcher: str) -> Place | None:
    if not (is_given(variables, RANK) and is_given(variables, SIZE)):
        return None
    rank, size = rank_and_size(variables, RANK, SIZE)
    host = text(variables, MASTER_HOST, advice=ADVICE)
    port = number(variables, MASTER_PORT, least=1, advice=ADVICE)
    return Place(
        rank=rank,
        num_workers=size,
        local_rank=optional_number(variables, LOCAL_RANK, least=0, default=0),
        store=f"{host}:{port}",
        is_store_host=rank == 0 and variables.get(AGENT_HAS_STORE) != str(True),
        launcher=launcher,
    )
