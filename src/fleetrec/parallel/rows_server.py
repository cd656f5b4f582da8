"""Rows and dense network on parameter servers."""

import contextlib
from collections.abc import Collection, Iterator, Mapping

import numpy as np
from torch import Tensor

from fleetrec.config.job import CommunicatorOptions
from fleetrec.core.batch import Batch
from fleetrec.core.progress import Progress
from fleetrec.embedding.lookup import LookedUp
from fleetrec.embedding.remote_lookup import (
    RemoteLookedUp,
    RemoteLookup,
    Rows,
    RowUpdate,
    UniqueIds,
)
from fleetrec.parallel.flat import Floats
from fleetrec.parallel.prefetch_pull import PulledBatch, PullPrefetcher
from fleetrec.parallel.rows import ClickLabels, PassEnd
from fleetrec.parallel.worker_session import WorkerSession
from fleetrec.server.dense import WEIGHTS
from fleetrec.server.parameter_client import StepUpdate
from fleetrec.server.sender import BackgroundSender

NO_NUMBERS = np.zeros(0, np.float32)


class ServerRows:
    """Pulls the rows of every batch with the dense network, and pushes the gradients of both.

    In ``sync`` all workers make one step together, on rows of the same version. In ``async`` pushes
    are sent by another thread and applied as they arrive. In ``half_async`` a worker waits for its
    own pushes only.
    """

    def __init__(
        self,
        session: WorkerSession,
        *,
        communicator: CommunicatorOptions,
        dense_interval: int,
        frozen: Collection[str],
    ) -> None:
        self._session = session
        self._dense_interval = dense_interval
        self._click_labels = ClickLabels(session.model)
        self._lookup = RemoteLookup(
            session.model.embedding_collection(), session.client.stores, frozen=frozen
        )
        self._prefetcher: PullPrefetcher | None = None
        if communicator.pull_ahead and isinstance(session.sender, BackgroundSender):
            self._prefetcher = PullPrefetcher(self._pull, wait_for=session.sender.wait_for)
        self._updates: dict[str, RowUpdate] | None = None
        self.pulled_P: Floats = NO_NUMBERS  # the dense network of the current step
        self.grads_P: Floats = NO_NUMBERS  # of the dense network, for the next push

    @property
    def prefetches(self) -> bool:
        """Return whether rows are pulled one step ahead."""
        return self._prefetcher is not None

    def prefetch(self, batch: Batch) -> None:
        """Note the next batch."""
        if self._prefetcher is not None:
            self._prefetcher.prefetch(batch)

    def start_prefetch(self) -> None:
        """Start to pull the rows of the next batch."""
        if self._prefetcher is not None:
            self._prefetcher.start(sequence=self._session.sequence + 2)

    def pull(self, batch: Batch, *, training: bool) -> LookedUp:
        """Look up the vectors of a batch."""
        if not training:
            pulled = self._pull(batch, sequence=0)
            return self._lookup.look_up(pulled.rows, training=False)
        found = None if self._prefetcher is None else self._prefetcher.take(batch)
        pulled = found or self._pull(batch, sequence=self._session.sequence + 1)
        self.pulled_P = pulled.dense_P
        return self._lookup.look_up(pulled.rows, training=True)

    def grad_square_sum(self, batch: Batch, looked_up: LookedUp) -> float:  # noqa: ARG002
        """Return the sum of squares of the gradients of all rows of this worker's batch."""
        self._updates = self._sum(looked_up)
        squares = (np.square(u.grads_MD, dtype=np.float64).sum() for u in self._updates.values())
        return float(sum(squares))

    def push(
        self,
        batch: Batch,
        looked_up: LookedUp,
        *,
        step: int,  # noqa: ARG002
        scale: float,
        progress: Progress,
    ) -> None:
        """Send the gradients of rows and dense network to the servers."""
        updates, self._updates = self._updates, None
        if updates is None:
            updates = self._sum(looked_up)
        if scale != 1:
            updates = {
                name: RowUpdate(ids=its.ids, grads_MD=its.grads_MD * np.float32(scale))
                for name, its in updates.items()
            }
        update = StepUpdate(
            progress=self._session.payload(progress),
            num_samples=batch.num_samples,
            event_time=batch.event_time,
            grads_P=self.grads_P,
            tables=updates,
        )
        self._session.send(update, sequence=self._session.sequence + 1)

    def end_pass(self, end: PassEnd) -> None:
        """Wait until no worker has data left in the pass; then rows are evicted."""
        self._drop_prefetched()
        self._session.end_pass(end)

    def num_pending_pushes(self) -> int:
        """Return how many steps the servers do not have yet."""
        return self._session.sender.num_pending()

    def flush(self) -> None:
        """Return when the servers have all steps of this worker."""
        self._session.sender.flush()

    def close(self) -> None:
        """End the threads."""
        if self._prefetcher is not None:
            self._prefetcher.close()

    def _drop_prefetched(self) -> None:
        if self._prefetcher is not None:
            self._prefetcher.drop()

    def _sum(self, looked_up: LookedUp) -> dict[str, RowUpdate]:
        assert isinstance(looked_up, RemoteLookedUp)
        return self._lookup.sum(looked_up)

    def _pull(self, batch: Batch, *, sequence: int) -> PulledBatch:
        """Get rows and dense network for the step ``sequence``; 0 only reads rows."""
        training = sequence > 0
        labels_B = self._click_labels(batch) if training else None
        interval = self._dense_interval
        is_due = training and sequence % interval == 1 % interval
        dense_P = NO_NUMBERS

        def fetch(listed: Mapping[str, UniqueIds], *, training: bool) -> Mapping[str, Rows]:  # noqa: ARG001
            nonlocal dense_P
            wanted = {name: its.ids_N for name, its in listed.items()}
            rows, dense_P = self._session.client.pull(wanted, sequence=sequence, wants_dense=is_due)
            return rows

        rows = self._lookup.prepare(batch, fetch, training=training, labels_B=labels_B)
        return PulledBatch(rows=rows, dense_P=dense_P)


class ServerDense:
    """The dense network on servers: weights are pulled, gradients are pushed with the rows."""

    def __init__(self, session: WorkerSession, rows: ServerRows) -> None:
        self._session = session
        self._rows = rows

    @property
    def step(self) -> int:
        """Return how many updates the servers had made at the last pull."""
        return self._session.client.num_steps

    def load_weights(self) -> None:
        """Load the weights that were pulled with the rows of the batch."""
        self._session.flat.set_values(self._rows.pulled_P)

    def forward_backward(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """Compute outputs, loss and gradients."""
        model = self._session.model
        outputs = model(batch)
        loss = model.loss(outputs, batch)
        model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        return outputs, loss

    def gradients(self) -> list[Tensor]:
        """Return the gradients of this worker's batch."""
        return self._session.flat.gradients()

    def apply(self) -> float:
        """Hand the gradients over to the next push; returns the learning rate."""
        self._rows.grads_P = self._session.flat.flat_gradients()
        return self._session.plan.rates(self.step)[-1]

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        """Let the model have the weights of the servers, and its own ones afterwards."""
        return servers_weights(self._session)


@contextlib.contextmanager
def servers_weights(session: WorkerSession) -> Iterator[None]:
    """Give the model of a worker the weights of the servers while the block runs."""
    own_P = session.flat.values()
    session.flat.set_values(session.client.admin.dense_state()[WEIGHTS])
    try:
        yield
    finally:
        session.flat.set_values(own_P)
