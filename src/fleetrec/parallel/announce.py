"""Tell the holders of rows which ids a batch has: when its step begins, or a step before."""

import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.embedding.remote_lookup import BatchIds, RemoteLookup, UniqueIds
from fleetrec.parallel.row_exchange import RowExchange, Sent

Clicks = Callable[[Batch], Tensor | None]

NOTHING = UniqueIds(
    ids_N=np.zeros(0, np.int64), shows_N=np.zeros(0, np.uint32), clicks_N=np.zeros(0, np.uint32)
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What a batch looks up here, and what all ranks have told each other about their batches."""

    listing: BatchIds
    sent: Mapping[str, Sent]


class Announcer:
    """Announces batches in the order of their steps, on all ranks alike.

    With ``ahead``, an exchange of its own, the ids of the next batch travel while the current one
    is computed. Rows are read when its step begins, so nothing else changes. A rank that knows of
    no next batch announces a blank one, for another rank may have one.
    """

    def __init__(
        self, lookup: RemoteLookup, exchange: RowExchange, *, ahead: RowExchange | None
    ) -> None:
        self._lookup = lookup
        self._exchange = exchange
        self._ahead = ahead
        self._expected: Batch | None = None
        self._coming: tuple[Batch | None, Future[Announced]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="announce")

    @property
    def is_ahead(self) -> bool:
        """Whether batches are announced a step before theirs."""
        return self._ahead is not None

    def expect(self, batch: Batch) -> None:
        """Note what comes next."""
        self._expected = batch

    def announce(self, batch: Batch, labels_B: Tensor | None) -> Announced:
        """Tell the other ranks about a batch now."""
        return self._announce(batch, labels_B, self._exchange)

    def take(self, batch: Batch, labels_B: Tensor | None) -> Announced:
        """Return what was announced of a batch a step before, or announce it."""
        coming, self._coming = self._coming, None
        if coming is None:
            return self.announce(batch, labels_B)
        expected, future = coming
        announced = future.result()
        assert batch.is_blank if expected is None else batch is expected
        if expected is not None:
            return announced
        return dataclasses.replace(announced, listing=self._lookup.list_batch(batch))

    def begin_next(self, clicks: Clicks) -> None:
        """Announce the batch that is expected, while another one is computed."""
        if self._ahead is None:
            return
        batch, self._expected = self._expected, None
        labels_B = None if batch is None else clicks(batch)
        future = self._thread.submit(self._announce_next, batch, labels_B, self._ahead)
        self._coming = (batch, future)

    def drop(self) -> None:
        """Forget what was announced: a new pass begins, on all ranks."""
        self._expected = None
        if self._coming is not None:
            self._coming[1].result()
            self._coming = None

    def _announce_next(
        self, batch: Batch | None, labels_B: Tensor | None, exchange: RowExchange
    ) -> Announced:
        if batch is not None:
            return self._announce(batch, labels_B, exchange)
        sent = exchange.send_ids(dict.fromkeys(self._lookup.table_names, NOTHING))
        return Announced(listing=BatchIds(lookups={}, listed={}), sent=sent)

    def _announce(self, batch: Batch, labels_B: Tensor | None, exchange: RowExchange) -> Announced:
        listing = self._lookup.list_batch(batch, labels_B=labels_B)
        listed = dict.fromkeys(listing.listed, NOTHING) if batch.is_blank else listing.listed
        return Announced(listing=listing, sent=exchange.send_ids(listed))
