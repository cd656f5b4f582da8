"""When the steps of a worker go to the servers: at once, some together, or behind its back."""

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from fleetrec.config.job import CommunicatorOptions
from fleetrec.server.merge import Rule, merge_steps
from fleetrec.server.parameter_client import ParameterClient, StepUpdate


class Sender(Protocol):
    """Takes steps in order; whatever it merges counts as its last one."""

    def send(self, step: StepUpdate, *, sequence: int) -> None:
        """Take a step."""
        ...

    def flush(self) -> None:
        """Return when the servers have all that was taken."""
        ...

    def num_pending(self) -> int:
        """Return how many steps the servers do not have yet."""
        ...

    def close(self) -> None:
        """Stop; what was not flushed is lost, as in a death."""
        ...


class DirectSender:
    """Sends ``num_merged`` steps as one, and waits until the servers have them.

    With one, this is what ``sync`` needs; with more, the local barrier of ``half_async``.
    """

    def __init__(self, client: ParameterClient, *, num_merged: int, rule: Rule) -> None:
        self._client = client
        self._num_merged = num_merged
        self._rule: Rule = rule
        self._waiting: list[tuple[int, StepUpdate]] = []

    def send(self, step: StepUpdate, *, sequence: int) -> None:
        """Take a step, and push when enough are there."""
        self._waiting.append((sequence, step))
        repeats = sequence <= self._client.last_known_sequence
        if repeats or len(self._waiting) >= self._num_merged:
            self.flush()

    def flush(self) -> None:
        """Push what is there, be it fewer steps than usual."""
        if self._waiting:
            push_merged(self._client, self._waiting, self._rule)
            self._waiting = []

    def num_pending(self) -> int:
        """Return how many steps wait for others."""
        return len(self._waiting)

    def close(self) -> None:
        """Forget what waits."""
        self._waiting = []


class BackgroundSender:
    """Pushes from a thread of its own, merging what has piled up; a full queue holds the worker up.

    At most ``num_queued`` steps wait, and at most ``num_merged`` are on their way.
    """

    def __init__(
        self, client: ParameterClient, *, num_queued: int, num_merged: int, rule: Rule
    ) -> None:
        self._client = client
        self._num_merged = num_merged
        self._rule: Rule = rule
        self._queue: queue.Queue[tuple[int, StepUpdate]] = queue.Queue(num_queued)
        self._last_taken = 0  # sequences; those of an earlier process do not count
        self._last_pushed = 0
        self._is_stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="push", daemon=True)
        self._thread.start()

    def send(self, step: StepUpdate, *, sequence: int) -> None:
        """Put a step into the queue."""
        self._until(lambda: self._try_put((sequence, step)))
        self._last_taken = sequence

    def wait_for(self, sequence: int) -> None:
        """Wait until the servers have a step and all before it; others may be on their way."""
        wanted = min(sequence, self._last_taken)
        self._until(lambda: self._last_pushed >= wanted)

    def flush(self) -> None:
        """Wait until the queue is empty and all is answered."""
        self._until(lambda: self._queue.unfinished_tasks == 0)

    def num_pending(self) -> int:
        """Return how many steps wait or are on their way."""
        return self._queue.unfinished_tasks

    def close(self) -> None:
        """End the thread after the push that it is at."""
        self._is_stopped.set()
        self._thread.join()

    def _try_put(self, item: tuple[int, StepUpdate]) -> bool:
        try:
            self._queue.put(item, timeout=0.01)
        except queue.Full:
            return False
        return True

    def _until(self, is_done: Callable[[], bool]) -> None:
        """Wait, unless the thread has failed."""
        while not is_done():
            if self._failure is not None:
                raise self._failure
            if not self._thread.is_alive():
                raise RuntimeError("the sender has been closed")
            self._is_stopped.wait(0.001)

    def _run(self) -> None:
        try:
            while not self._is_stopped.is_set():
                taken = self._take()
                if taken:
                    push_merged(self._client, taken, self._rule)
                    self._last_pushed = taken[-1][0]
                for _ in taken:
                    self._queue.task_done()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
            self._failure = error  # raised again by whoever sends or flushes

    def _take(self) -> list[tuple[int, StepUpdate]]:
        taken: list[tuple[int, StepUpdate]] = []
        try:
            taken.append(self._queue.get(timeout=0.05))
            # What some servers may have already goes alone: half of a merged step cannot be done.
            while len(taken) < self._num_merged and taken[-1][0] > self._client.last_known_sequence:
                taken.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return taken


def push_merged(client: ParameterClient, steps: list[tuple[int, StepUpdate]], rule: Rule) -> None:
    """Push steps as one that counts as the last of them."""
    client.push(merge_steps([step for _, step in steps], rule), sequence=steps[-1][0])


def build_sender(
    client: ParameterClient, mode: str, communicator: CommunicatorOptions, *, is_sgd: bool
) -> Sender:
    """Return what sends as the strategy of a job wants it."""
    num_merged = communicator.max_merge_var_num
    if mode == "async":
        return BackgroundSender(
            client,
            num_queued=communicator.send_queue_size,
            num_merged=num_merged,
            rule="sum" if is_sgd or communicator.is_sgd_optimizer else "mean",
        )
    return DirectSender(client, num_merged=num_merged if mode == "half_async" else 1, rule="mean")
