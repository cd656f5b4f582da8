"""Pull what the next batch needs from the servers, while the current one is computed."""

# Shape suffixes: P numbers of the dense network.

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from fleetrec.core.batch import Batch
from fleetrec.embedding.remote_lookup import BatchRows
from fleetrec.server.wire import Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PulledBatch:
    """What a step starts from: the rows of its batch, and the dense network."""

    rows: BatchRows
    dense_P: Array  # the next pull writes into it


class Pull(Protocol):
    """Asks the servers for what a batch needs."""

    def __call__(self, batch: Batch, *, sequence: int) -> PulledBatch:
        """Return it; ``sequence`` is that of the step."""
        ...


class PullPrefetcher:
    """Pulls for one batch at a time, in a thread of its own.

    Servers are asked for step t + 1 when they have step t - 1 of this worker. So the answer may
    lack step t, which is being computed, and nothing older.
    """

    def __init__(self, pull: Pull, *, wait_for: Callable[[int], None]) -> None:
        self._pull = pull
        self._wait_for = wait_for
        self._next: Batch | None = None
        self._pending: tuple[Batch, Future[PulledBatch]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch-pull")

    def prefetch(self, batch: Batch) -> None:
        """Note the next batch."""
        self._next = batch

    def start(self, *, sequence: int) -> None:
        """Start to pull for the next batch, if there is one."""
        assert self._pending is None, "what was pulled is taken first"
        if self._next is not None:
            future = self._thread.submit(self._run, self._next, sequence)
            self._pending = (self._next, future)
            self._next = None

    def take(self, batch: Batch) -> PulledBatch | None:
        """Return what was pulled for a batch; None if that was another one, or nothing."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        prefetched, future = pending
        pulled = future.result()
        return pulled if prefetched is batch else None

    def drop(self) -> None:
        """Wait for what is being pulled, and forget it."""
        self._next = None
        if self._pending is not None:
            self._pending[1].result()
            self._pending = None

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _run(self, batch: Batch, sequence: int) -> PulledBatch:
        self._wait_for(sequence - 2)
        return self._pull(batch, sequence=sequence)
