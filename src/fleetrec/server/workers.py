"""A server's view of its workers: their last pushes, and which ones a step waits for."""

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any

from fleetrec.server.push import Push
from fleetrec.server.wire import WireError


@dataclasses.dataclass(slots=True, kw_only=True)
class Worker:
    """One worker: its last push, and the progress that came with it."""

    incarnation: int = 0
    sequence: int = 0
    progress: bytes = b""
    applied: bytes = b""  # progress of the last applied push
    pending: Push | None = None  # in sync: the last push, until its step is applied
    is_ready: bool = False  # all servers have its last push
    has_ended_pass: bool = False  # it has no more data in this pass


class Workers:
    """All workers of a run, and the rule that makes one step of their pushes (``sync``).

    A push stays pending until every worker in the pass is ready. A worker becomes ready by pulling
    rows for its next step, which it does only when all servers have its push. So if a worker dies
    between pushes to two servers, no server has applied the step, and the restarted worker can
    repeat it from the same rows.
    """

    def __init__(self, num_workers: int) -> None:
        self._workers = [Worker() for _ in range(num_workers)]
        self.num_passes = 0  # passes that all workers have ended

    def __len__(self) -> int:
        return len(self._workers)

    def of(self, index: int) -> Worker:
        """Return one worker."""
        if index >= len(self._workers):
            raise WireError(f"worker {index} of {len(self._workers)} does not exist")
        return self._workers[index]

    def register(self, index: int, incarnation: int) -> None:
        """Register a new process of a worker; requests of older ones are refused."""
        worker = self.of(index)
        worker.incarnation = max(worker.incarnation, incarnation)

    def check_alive(self, index: int, incarnation: int) -> Worker:
        """Return a worker; raises WireError if a newer process has replaced the caller."""
        worker = self.of(index)
        if incarnation != worker.incarnation:
            raise WireError(
                f"worker {index}: incarnation {incarnation} was replaced by {worker.incarnation}"
            )
        return worker

    def hold_push(self, index: int, sequence: int, push: Push) -> None:
        """Keep a push as pending until its step is applied."""
        worker = self.of(index)
        worker.sequence, worker.progress, worker.pending = sequence, push.progress, push

    def record_push(self, index: int, sequence: int, progress: bytes) -> None:
        """Record a push that was applied immediately."""
        worker = self.of(index)
        worker.sequence, worker.progress, worker.applied = sequence, progress, progress

    def set_ready(self, index: int) -> None:
        """Record that all servers have the last push of a worker."""
        self.of(index).is_ready = True

    def end_pass(self, index: int) -> None:
        """Record that a worker has no more data in this pass."""
        self.of(index).has_ended_pass = True

    def missing(self) -> list[int]:
        """Return the workers that the step still waits for."""
        return [i for i, w in enumerate(self._workers) if not (w.is_ready or w.has_ended_pass)]

    def in_pass(self) -> list[int]:
        """Return the workers that still have data in this pass."""
        return [i for i, worker in enumerate(self._workers) if not worker.has_ended_pass]

    def num_pending(self) -> int:
        """Return the number of pending pushes."""
        return sum(worker.pending is not None for worker in self._workers)

    def take_pending(self) -> list[Push]:
        """Return the pushes of the step in rank order, and start the next step."""
        pending = [worker.pending for worker in self._workers if worker.pending is not None]
        for worker in self._workers:
            worker.applied = worker.progress
            worker.pending = None
            worker.is_ready = False
        return pending

    def applied(self) -> list[bytes]:
        """Return the progress of every worker's last applied push."""
        return [worker.applied for worker in self._workers]

    def start_next_pass(self, number: int) -> None:
        """Start the pass after ``number``, with all workers."""
        self.num_passes = number + 1
        for worker in self._workers:
            worker.has_ended_pass = False
            worker.is_ready = False

    def to_plain(self) -> dict[str, Any]:
        """Return the state for a snapshot; no push may be pending."""
        assert self.num_pending() == 0
        return {
            "passes": self.num_passes,
            "workers": [
                {
                    "incarnation": worker.incarnation,
                    "sequence": worker.sequence,
                    "progress": base64.b64encode(worker.progress).decode(),
                }
                for worker in self._workers
            ],
        }

    def load(self, plain: Mapping[str, Any]) -> None:
        """Load a state of ``to_plain``."""
        self.num_passes = plain["passes"]
        self._workers = [
            Worker(
                incarnation=one["incarnation"],
                sequence=one["sequence"],
                progress=base64.b64decode(one["progress"]),
                applied=base64.b64decode(one["progress"]),
            )
            for one in plain["workers"]
        ]
