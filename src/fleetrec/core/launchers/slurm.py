"""Tasks that srun started: ranks, or servers and workers."""

import re

from fleetrec.core.launchers.own import place_by_rank
from fleetrec.core.launchers.values import (
    LOOPBACK,
    Variables,
    is_given,
    master_store,
    number,
    optional_number,
    rank_and_size,
)
from fleetrec.core.place import Place

RANK = "SLURM_PROCID"
STEP_SIZE = "SLURM_STEP_NUM_TASKS"
SIZE = "SLURM_NTASKS"
LOCAL_RANK = "SLURM_LOCALID"
JOB = "SLURM_JOB_ID"
STEP = "SLURM_STEP_ID"
FIRST_RESERVED_STEP = 0xFFFFFFF0  # batch, interactive and other steps of Slurm itself
NODES = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
ADVICE = "set it to the node of task 0, or start the tasks with srun, which lists its nodes"


def read(variables: Variables) -> Place | None:
    """Return the place of a task of srun.

    The script of sbatch and the shell of salloc are no tasks, although they have most of the
    variables: they have no step, or one with a reserved number.
    """
    if not (is_given(variables, RANK) and is_given(variables, STEP)):
        return None
    if number(variables, STEP, least=0) >= FIRST_RESERVED_STEP:
        return None
    size_name = STEP_SIZE if is_given(variables, STEP_SIZE) else SIZE
    rank, size = rank_and_size(variables, RANK, size_name)
    local = optional_number(variables, LOCAL_RANK, least=0, default=0)
    place = place_by_rank(variables, rank=rank, size=size, local_rank=local, launcher="Slurm")
    if place is not None:
        return place
    nodes = next((variables[name] for name in NODES if is_given(variables, name)), "")
    is_one_machine = size == 1 or bool(re.fullmatch(r"[^,\[]+", nodes))
    return Place(
        rank=rank,
        num_workers=size,
        local_rank=local,
        store=master_store(
            variables,
            host=LOOPBACK if is_one_machine else first_node(nodes) or None,
            job=f"{variables.get(JOB, '')}.{variables[STEP]}",
            advice=ADVICE,
        ),
        is_store_host=rank == 0,
        launcher="Slurm",
    )


def first_node(nodes: str) -> str:
    """Return the first of a list such as ``gpu[007-009,12]-ib,cpu1``: ``gpu007-ib``."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first.group() if first else "")
