"""What the next batch needs from the servers, pulled while the current one is computed."""

# Shape suffixes: P numbers of the dense network.

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from fleetrec.core.batch import Batch
from fleetrec.embedding.remote_lookup import BatchRows
from fleetrec.server.wire import Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What a step begins with: the rows of its batch, and the dense network."""

    fetched: BatchRows
    dense_P: Array  # the next pull writes into it


class Pull(Protocol):
    """Asks the servers for what a batch needs."""

    def __call__(self, batch: Batch, *, sequence: int) -> Pulled:
        """Return it; ``sequence`` is that of the step which it is for."""
        ...


class Ahead:
    """Pulls for one batch at a time, in a thread of its own.

    Servers are asked for step t + 1 when they have step t - 1 of this worker. So the answer may
    lack step t, which is being computed, and nothing older.
    """

    def __init__(self, pull: Pull, *, wait_for: Callable[[int], None]) -> None:
        self._pull = pull
        self._wait_for = wait_for
        self._expected: Batch | None = None
        self._coming: tuple[Batch, Future[Pulled]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pull-ahead")

    def expect(self, batch: Batch) -> None:
        """Note what comes next."""
        self._expected = batch

    def begin(self, *, sequence: int) -> None:
        """Begin to pull for the batch that is expected, if there is one."""
        assert self._coming is None, "what was pulled is taken first"
        if self._expected is not None:
            future = self._thread.submit(self._run, self._expected, sequence)
            self._coming = (self._expected, future)
            self._expected = None

    def take(self, batch: Batch) -> Pulled | None:
        """Return what was pulled for a batch; None if another one was expected, or none."""
        coming, self._coming = self._coming, None
        if coming is None:
            return None
        expected, future = coming
        pulled = future.result()
        return pulled if expected is batch else None

    def drop(self) -> None:
        """Wait for what is being pulled, and forget it."""
        self._expected = None
        if self._coming is not None:
            self._coming[1].result()
            self._coming = None

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _run(self, batch: Batch, sequence: int) -> Pulled:
        self._wait_for(sequence - 2)
        return self._pull(batch, sequence=sequence)
