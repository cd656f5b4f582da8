"""Rows that ranks share: sharded over them, or replicated on each."""

from collections.abc import Collection, Mapping

import numpy as np

from fleetrec.core.batch import Batch
from fleetrec.core.progress import Progress
from fleetrec.embedding.lookup import LookedUp
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import (
    BatchRows,
    RemoteLookedUp,
    RemoteLookup,
    Rows,
    RowUpdate,
    UniqueIds,
)
from fleetrec.models.base import Model
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.prefetch_ids import IdPrefetcher, SentIds
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.parallel.row_exchange import RowExchange, RowGradients, Sent
from fleetrec.parallel.rows import ClickLabels, PassEnd, evict_rows


class ShardedRows:
    """Gets rows from the ranks that hold them, and sends gradients there."""

    def __init__(
        self,
        model: Model,
        stores: Mapping[str, NativeStore],
        plan: OptimizerPlan,
        comm: RankComm,
        *,
        frozen: Collection[str],
        exchange_ahead: bool,
    ) -> None:
        collection = model.embedding_collection()
        sharded = {name for name, store in stores.items() if store.shard.count > 1}
        self._stores = stores
        self._tables = collection.tables
        self._plan = plan
        self._comm = comm
        self._frozen = frozenset(frozen)
        self._lookup = RemoteLookup(collection, stores, frozen=frozen)
        self._exchange = RowExchange(comm, stores, sharded=sharded)
        self._prefetcher = IdPrefetcher(
            self._lookup,
            self._exchange,
            ClickLabels(model),
            ahead=self._exchange.on_prefetch_channel() if exchange_ahead else None,
        )
        self._sent: Mapping[str, Sent] = {}
        self._gradients: Mapping[str, RowGradients] | None = None

    @property
    def prefetches(self) -> bool:
        """Return whether the ids of the next batch are sent while the current one is computed."""
        return self._prefetcher.is_ahead

    def prefetch(self, batch: Batch) -> None:
        """Note the next batch."""
        self._prefetcher.prefetch(batch)

    def start_prefetch(self) -> None:
        """Start to send the ids of the next batch."""
        self._prefetcher.start()

    def pull(self, batch: Batch, *, training: bool) -> LookedUp:
        """Look up the vectors of a batch; all ranks do."""
        if not training:
            return self._look_up(batch, self._prefetcher.send(batch, training=False), training)
        sent_ids = self._prefetcher.take(batch)
        sent = sent_ids.sent.items()
        self._sent = {name: its for name, its in sent if name not in self._frozen}
        self._exchange.count_impressions(self._sent, now=batch.event_time)
        return self._look_up(batch, sent_ids, training)

    def grad_square_sum(self, batch: Batch, looked_up: LookedUp) -> float:  # noqa: ARG002
        """Return the sum of squares of the gradients of all rows of the step, of all ranks."""
        self._gradients = self._exchange_gradients(looked_up)
        return self._exchange.square_sum(self._gradients)

    def push(
        self,
        batch: Batch,  # noqa: ARG002
        looked_up: LookedUp,
        *,
        step: int,
        scale: float,
        progress: Progress,  # noqa: ARG002
    ) -> None:
        """Update the rows that are held here by the gradients of all ranks."""
        gradients, self._gradients = self._gradients, None
        if gradients is None:
            gradients = self._exchange_gradients(looked_up)
        for name, its in gradients.items():
            if len(its.ids_N) or self._tables[name].is_dense:
                grads_ND = its.grads_ND if scale == 1 else its.grads_ND * np.float32(scale)
                rate = self._plan.table_rate(name, step)
                self._stores[name].table.push(its.ids_N, grads_ND, lr=rate)

    def end_pass(self, end: PassEnd) -> None:
        """Evict rows by the rules of their tables."""
        self._prefetcher.drop()
        evict_rows(self._stores, end)

    def num_pending_pushes(self) -> int:
        """Return 0: a step is applied when it ends."""
        return 0

    def flush(self) -> None:
        """Do nothing: a step is applied when it ends."""

    def _look_up(self, batch: Batch, sent_ids: SentIds, training: bool) -> RemoteLookedUp:  # noqa: FBT001
        rows = self._exchange.rows(sent_ids.sent)
        batch_ids = sent_ids.batch_ids
        if batch.is_blank:  # its ids are placeholders
            rows = {name: self._no_rows(name, its) for name, its in batch_ids.listed.items()}
        fetched = BatchRows(lookups=batch_ids.lookups, listed=batch_ids.listed, rows=rows)
        return self._lookup.look_up(fetched, training=training)

    def _no_rows(self, table: str, ids: UniqueIds) -> Rows:
        num_ids = len(ids.ids_N)
        return Rows(
            rows_ND=np.zeros((num_ids, self._stores[table].dim), np.float32),
            is_there_N=np.zeros(num_ids, np.uint8),
        )

    def _exchange_gradients(self, looked_up: LookedUp) -> dict[str, RowGradients]:
        assert isinstance(looked_up, RemoteLookedUp)
        updates = self._lookup.sum(looked_up)
        for name, sent in self._sent.items():
            if not len(sent.listed.ids_N):  # also where the batch is blank
                none_MD = np.zeros((0, self._stores[name].dim), np.float32)
                updates[name] = RowUpdate(ids=sent.listed, grads_MD=none_MD)
        return self._exchange.exchange_gradients(self._sent, updates, scale=1 / self._comm.size)
