"""How the processes of a run work together: the contract of one process, ranks and workers."""

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import torch

from fleetrec.config.job import OptimizerOptions, UpdateOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.data.plan import DataShard
from fleetrec.models.base import Model
from fleetrec.parallel.state import ModelState
from fleetrec.parallel.stepper import Stepper

CHIEF = 0  # the rank that decides what is loaded, and that publishes


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How a model is trained; the same in every process of a group.

    ``frozen`` are names of parameters and tables that are not trained. Without ``trains``, the
    model is only evaluated, and no optimizer state is kept.
    """

    optimizer: OptimizerOptions
    update: UpdateOptions = dataclasses.field(default_factory=UpdateOptions)
    seed: int
    frozen: tuple[str, ...] = ()
    trains: bool = True

    @property
    def optimizers(self) -> tuple[OptimizerOptions, ...]:
        """Return the optimizers; the model says which of several updates a variable."""
        return self.update.optimizers or (self.optimizer,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltModel:
    """A model that can make steps, and whose state can be saved and loaded."""

    stepper: Stepper
    state: ModelState


class Group(Protocol):
    """The processes of one run, as one of them sees it.

    ``key`` and ``pass_index`` distinguish the calls of ``all_gather`` and ``broadcast``.
    ``pass_index`` is None where a call takes place once in a run; else it rises with the passes, so
    that the result can be forgotten after some passes. A process that was restarted may repeat a
    call and gets the same result.
    """

    @property
    def rank(self) -> int:
        """Return the number of this process among those that train."""
        ...

    @property
    def size(self) -> int:
        """Return how many processes train."""
        ...

    @property
    def is_chief(self) -> bool:
        """Return whether this is the process that publishes for all."""
        ...

    @property
    def shard(self) -> DataShard:
        """Return which part of the data this process reads."""
        ...

    @property
    def device(self) -> torch.device:
        """Return where the dense network of this process computes."""
        ...

    @property
    def rule_group(self) -> "Group | None":
        """Return the processes that save, load and evaluate together at a step of their own.

        One process and ranks: all of them, which make every step together. Workers of servers make
        steps of their own, so there it is the chief alone: a group of size 1, and None for others.
        """
        ...

    @property
    def has_started(self) -> bool:
        """Return whether a process that this one replaces took part in the start of the run.

        Then it has loaded what the run starts from, and repeats no load but its own.
        """
        ...

    @property
    def num_restarts(self) -> int:
        """Return how often all processes were restarted together, to resume from a checkpoint."""
        ...

    @property
    def num_passes_done(self) -> int:
        """Return how many passes the group had finished when this process joined it."""
        ...

    def all_gather(self, content: bytes, *, key: str, pass_index: int | None) -> list[bytes]:
        """Return the contents of all processes, in rank order."""
        ...

    def broadcast(self, content: bytes, *, key: str, pass_index: int | None) -> bytes:
        """Return the content of the chief."""
        ...

    def any_rank(self, flag: bool) -> bool:  # noqa: FBT001
        """Return True on every process of a step if any of them passed True before the step.

        Workers of servers answer for themselves: one may stop without the others.
        """
        ...

    def align_steps(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:
        """Yield the batches of a pass.

        Where every step is made by all ranks, blank batches follow while others have more.
        """
        ...

    def load_progress(self) -> bytes:
        """Return the progress of the process that this one replaces; b"" in a new run."""
        ...

    def build(self, model: Model, options: ModelOptions) -> BuiltModel:
        """Prepare a model for training by this group; raises ValueError for what it cannot do."""
        ...

    def close(self, *, finished: bool) -> None:
        """Leave the group; ``finished``: this process needs the servers no more."""
        ...
