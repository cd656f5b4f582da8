"""A group of one process."""

from collections.abc import Iterator

import torch

from fleetrec.core.batch import Batch, Inputs
from fleetrec.data.plan import DataShard
from fleetrec.embedding.native_store import NativeStore
from fleetrec.models.base import Model
from fleetrec.parallel.dense_local import LocalDense
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.group import BuiltModel, ModelOptions
from fleetrec.parallel.held_state import HeldState, OneHolder
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.rows_local import LocalRows
from fleetrec.parallel.stepper import Stepper
from fleetrec.parallel.transfer import transfer_to


class SoloGroup:
    """One process that does everything."""

    rank = 0
    size = 1
    is_chief = True
    has_started = False
    num_restarts = 0
    num_passes_done = 0

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.shard = DataShard()

    @property
    def rule_group(self) -> "SoloGroup":
        """Return this group: one process saves and evaluates by itself."""
        return self

    def all_gather(
        self,
        content: bytes,
        *,
        key: str,  # noqa: ARG002
        pass_index: int | None,  # noqa: ARG002
    ) -> list[bytes]:
        """Return the content of this process."""
        return [content]

    def broadcast(
        self,
        content: bytes,
        *,
        key: str,  # noqa: ARG002
        pass_index: int | None,  # noqa: ARG002
    ) -> bytes:
        """Return the content of this process."""
        return content

    def any_rank(self, flag: bool) -> bool:  # noqa: FBT001
        """Return the flag."""
        return flag

    def align_steps(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:  # noqa: ARG002
        """Return the batches as they are."""
        return batches

    def load_progress(self) -> bytes:
        """Return b"": nothing outlives the process but checkpoints."""
        return b""

    def build(self, model: Model, options: ModelOptions) -> BuiltModel:
        """Prepare a model for training in this process."""
        tables = model.embedding_collection().tables
        model.to(self.device)
        plan = OptimizerPlan(model, options.optimizers)
        stores = {
            name: NativeStore(table, plan.row_optimizer(name), seed=options.seed)
            for name, table in tables.items()
        }
        frozen = freeze(model, tables, options.frozen)
        dense = LocalDense(model, plan)
        return BuiltModel(
            stepper=Stepper(
                model,
                LocalRows(model, stores, plan, frozen=frozen),
                dense,
                transfer=transfer_to(self.device),
                update=options.update,
                seed=options.seed,
            ),
            state=HeldState(model, stores, dense, OneHolder()),
        )

    def close(self, *, finished: bool) -> None:
        """Do nothing."""
