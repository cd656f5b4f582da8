"""Send the ids of a batch to the ranks that hold their rows, optionally one step ahead."""

import dataclasses
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.embedding.remote_lookup import BatchIds, RemoteLookup, UniqueIds
from fleetrec.parallel.row_exchange import RowExchange, Sent
from fleetrec.parallel.rows import ClickLabels

NO_IDS = UniqueIds(
    ids_N=np.zeros(0, np.int64), shows_N=np.zeros(0, np.uint32), clicks_N=np.zeros(0, np.uint32)
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SentIds:
    """The ids of a batch on this rank, and the ids that all ranks have sent each other."""

    batch_ids: BatchIds
    sent: Mapping[str, Sent]


class IdPrefetcher:
    """Sends the ids of batches in the order of their steps, on all ranks alike.

    With ``ahead``, an exchange with a channel of its own, the ids of the next batch are sent while
    the current one is computed. Rows are read when the step begins, so results do not change. A
    rank without a next batch sends no ids, since another rank may have one.
    """

    def __init__(
        self,
        lookup: RemoteLookup,
        exchange: RowExchange,
        click_labels: ClickLabels,
        *,
        ahead: RowExchange | None,
    ) -> None:
        self._lookup = lookup
        self._exchange = exchange
        self._click_labels = click_labels
        self._ahead = ahead
        self._next: Batch | None = None
        self._pending: tuple[Batch | None, Future[SentIds]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch-ids")

    @property
    def is_ahead(self) -> bool:
        """Return whether ids are sent one step ahead."""
        return self._ahead is not None

    def prefetch(self, batch: Batch) -> None:
        """Note the next batch."""
        self._next = batch

    def send(self, batch: Batch, *, training: bool) -> SentIds:
        """Send the ids of a batch now."""
        labels_B = self._click_labels(batch) if training else None
        return self._send(batch, labels_B, self._exchange)

    def take(self, batch: Batch) -> SentIds:
        """Return what was sent for a batch one step ahead, or send it now."""
        pending, self._pending = self._pending, None
        if pending is None:
            return self.send(batch, training=True)
        prefetched, future = pending
        sent = future.result()
        assert batch.is_blank if prefetched is None else batch is prefetched
        if prefetched is not None:
            return sent
        return dataclasses.replace(sent, batch_ids=self._lookup.list_batch(batch))

    def start(self) -> None:
        """Start to send the ids of the next batch, while another one is computed."""
        if self._ahead is None:
            return
        batch, self._next = self._next, None
        labels_B = None if batch is None else self._click_labels(batch)
        future = self._thread.submit(self._send_next, batch, labels_B, self._ahead)
        self._pending = (batch, future)

    def drop(self) -> None:
        """Forget what was sent ahead: the pass is over, on all ranks."""
        self._next = None
        if self._pending is not None:
            self._pending[1].result()
            self._pending = None

    def _send_next(
        self, batch: Batch | None, labels_B: Tensor | None, exchange: RowExchange
    ) -> SentIds:
        if batch is not None:
            return self._send(batch, labels_B, exchange)
        sent = exchange.send_ids(dict.fromkeys(self._lookup.table_names, NO_IDS))
        return SentIds(batch_ids=BatchIds(lookups={}, listed={}), sent=sent)

    def _send(self, batch: Batch, labels_B: Tensor | None, exchange: RowExchange) -> SentIds:
        batch_ids = self._lookup.list_batch(batch, labels_B=labels_B)
        listed = dict.fromkeys(batch_ids.listed, NO_IDS) if batch.is_blank else batch_ids.listed
        return SentIds(batch_ids=batch_ids, sent=exchange.send_ids(listed))
