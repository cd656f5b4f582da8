"""Ranks: processes that make every step together, over torch.distributed."""

from collections.abc import Iterator

import torch

from fleetrec.config.job import ClusterOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.data.plan import DataShard
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.placement import is_replicated
from fleetrec.embedding.sharding import WHOLE_TABLE, TableShard
from fleetrec.embedding.table import TableConfig
from fleetrec.models.base import Model
from fleetrec.parallel.blank import blank_batch, loss_denominator
from fleetrec.parallel.dense_ddp import DdpDense
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.group import BuiltModel, ModelOptions
from fleetrec.parallel.held_state import HeldState
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.parallel.rows_sharded import ShardedRows
from fleetrec.parallel.stepper import Stepper
from fleetrec.parallel.transfer import transfer_to


class RankGroup:
    """Ranks give together what one process gives with all their samples.

    The dense network is replicated; tables are replicated or sharded.
    """

    has_started = False
    num_passes_done = 0

    def __init__(self, comm: RankComm, options: ClusterOptions) -> None:
        self.comm = comm
        self._options = options
        self._loss_share = 1.0
        self._stop_requested = False
        self._any_stop = False

    @property
    def rank(self) -> int:
        """Return the number of this rank."""
        return self.comm.rank

    @property
    def size(self) -> int:
        """Return the number of ranks."""
        return self.comm.size

    @property
    def is_chief(self) -> bool:
        """Return whether this is the rank that publishes for all."""
        return self.comm.is_chief

    @property
    def shard(self) -> DataShard:
        """Return this rank's portion of every batch."""
        return DataShard(index=self.rank, count=self.size, by="batch")

    @property
    def device(self) -> torch.device:
        """Return where the dense network computes."""
        return self.comm.device

    @property
    def num_restarts(self) -> int:
        """Return how often all ranks were restarted."""
        return self.comm.num_restarts

    @property
    def rule_group(self) -> "RankGroup":
        """Return this group: all ranks are at the same step."""
        return self

    def all_gather(
        self,
        content: bytes,
        *,
        key: str,  # noqa: ARG002
        pass_index: int | None,  # noqa: ARG002
    ) -> list[bytes]:
        """Return the contents of all ranks, in rank order."""
        return self.comm.all_gather(content, wait=True)

    def broadcast(
        self,
        content: bytes,
        *,
        key: str,  # noqa: ARG002
        pass_index: int | None,  # noqa: ARG002
    ) -> bytes:
        """Return the content of the chief."""
        return self.comm.broadcast(content, wait=True)

    def any_rank(self, flag: bool) -> bool:  # noqa: FBT001
        """Return True on every rank if any rank passed True before the last step."""
        self._stop_requested |= flag
        return self._any_stop

    def align_steps(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:
        """Yield the batches of this rank, and blank ones while other ranks have more."""
        cursor = Cursor()
        for batch in batches:
            self._agree(loss_denominator(batch))
            yield batch
            cursor = batch.cursor
        while self._agree(0):
            yield blank_batch(inputs, cursor)

    def load_progress(self) -> bytes:
        """Return b"": nothing outlives the ranks but checkpoints."""
        return b""

    def build(self, model: Model, options: ModelOptions) -> BuiltModel:
        """Prepare a model for training by all ranks."""
        tables = model.embedding_collection().tables
        model.to(self.device)
        plan = OptimizerPlan(model, options.optimizers)
        stores = {
            name: NativeStore(
                table, plan.row_optimizer(name), seed=options.seed, shard=self._shard_of(table)
            )
            for name, table in tables.items()
        }
        frozen = freeze(model, tables, options.frozen)
        dense = DdpDense(model, plan, self.comm, loss_share=lambda: self._loss_share)
        rows = ShardedRows(
            model,
            stores,
            plan,
            self.comm,
            frozen=frozen,
            exchange_ahead=self._options.exchange_ahead,
        )
        return BuiltModel(
            stepper=Stepper(
                model,
                rows,
                dense,
                transfer=transfer_to(self.device),
                update=options.update,
                seed=options.seed,
                rank=self.rank,
            ),
            state=HeldState(model, stores, dense, self.comm),
        )

    def close(self, *, finished: bool) -> None:
        """Leave the group; a rank that has not finished does not wait for its peers."""
        if finished:
            self.comm.close()

    def _shard_of(self, table: TableConfig) -> TableShard:
        if is_replicated(table, self._options.placement):
            return WHOLE_TABLE
        return TableShard(index=self.rank, count=self.size)

    def _agree(self, weight: int) -> bool:
        """Exchange how much every rank has for the next step; False: none has anything."""
        self.comm.traffic.num_steps += 1
        total, stops = self.comm.all_reduce_sum(
            [weight, int(self._stop_requested)], dtype=torch.int64
        )
        self._any_stop = stops > 0
        self._loss_share = weight * self.size / max(total, 1)
        return total > 0
