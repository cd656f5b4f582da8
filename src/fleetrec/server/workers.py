"""What a server knows of its workers: what each has pushed, and for whom a step waits."""

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any

from fleetrec.server.push import Push
from fleetrec.server.wire import WireError


@dataclasses.dataclass(slots=True, kw_only=True)
class Worker:
    """One worker: its last push, and where its data stands behind it."""

    incarnation: int = 0
    sequence: int = 0
    progress: bytes = b""
    applied: bytes = b""  # the progress of the last push that was applied
    pending: Push | None = None  # in sync: the last push, until the step is applied
    is_ready: bool = False  # its last push has reached all servers
    has_ended_pass: bool = False  # it has no more data in this pass


class Workers:
    """All workers of a run, and the rule by which their pushes become one step.

    A push is held until every worker that has not left the pass is ready: it says so by asking for
    the rows of its next batch, which it does only when all servers have its push. So if a worker
    dies between two servers, no server has applied the step, and the worker can make it again
    from the same rows.
    """

    def __init__(self, num_workers: int) -> None:
        self._workers = [Worker() for _ in range(num_workers)]
        self.num_passes = 0  # all workers have left the passes with lower numbers

    def __len__(self) -> int:
        return len(self._workers)

    def of(self, index: int) -> Worker:
        """Return one worker."""
        if index >= len(self._workers):
            raise WireError(f"worker {index} of {len(self._workers)} does not exist")
        return self._workers[index]

    def register(self, index: int, incarnation: int) -> None:
        """Note that a worker lives again; an older process of the same number is out."""
        worker = self.of(index)
        worker.incarnation = max(worker.incarnation, incarnation)

    def check_alive(self, index: int, incarnation: int) -> Worker:
        """Return a worker, if it is not one that was replaced."""
        worker = self.of(index)
        if incarnation != worker.incarnation:
            raise WireError(
                f"worker {index}: incarnation {incarnation} was replaced by {worker.incarnation}"
            )
        return worker

    def hold_push(self, index: int, sequence: int, push: Push) -> None:
        """Keep a push until its step is applied."""
        worker = self.of(index)
        worker.sequence, worker.progress, worker.pending = sequence, push.progress, push

    def record_push(self, index: int, sequence: int, progress: bytes) -> None:
        """Note a push that was applied at once."""
        worker = self.of(index)
        worker.sequence, worker.progress, worker.applied = sequence, progress, progress

    def set_ready(self, index: int) -> None:
        """Note that the last push of a worker has reached all servers."""
        self.of(index).is_ready = True

    def end_pass(self, index: int) -> None:
        """Note that a worker has no more data in this pass."""
        self.of(index).has_ended_pass = True

    def missing(self) -> list[int]:
        """Return the workers without whom the step cannot be applied."""
        return [i for i, w in enumerate(self._workers) if not (w.is_ready or w.has_ended_pass)]

    def in_pass(self) -> list[int]:
        """Return the workers that still have data in this pass."""
        return [i for i, worker in enumerate(self._workers) if not worker.has_ended_pass]

    def has_pending(self) -> bool:
        """Tell whether a push waits for its step."""
        return self.num_pending() > 0

    def num_pending(self) -> int:
        """Return how many pushes wait for their step."""
        return sum(worker.pending is not None for worker in self._workers)

    def take_pending(self) -> list[Push]:
        """Return the pushes of the step, in the order of workers, and begin the next step."""
        pending = [worker.pending for worker in self._workers if worker.pending is not None]
        for worker in self._workers:
            worker.applied = worker.progress
            worker.pending = None
            worker.is_ready = False
        return pending

    def applied(self) -> list[bytes]:
        """Return the progress of every worker behind its last push that was applied."""
        return [worker.applied for worker in self._workers]

    def start_next_pass(self, number: int) -> None:
        """Begin the pass behind ``number``, in which all workers take part again."""
        self.num_passes = number + 1
        for worker in self._workers:
            worker.has_ended_pass = False
            worker.is_ready = False

    def to_plain(self) -> dict[str, Any]:
        """Return what outlives the process; nothing may be held."""
        assert not self.has_pending()
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
        """Take up what ``to_plain`` returned."""
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
