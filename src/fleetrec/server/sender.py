"""Sends the steps of a worker to the servers: one by one, merged, or in the background."""

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from fleetrec.config.job import CommunicatorOptions
from fleetrec.server.merge import Rule, merge_steps
from fleetrec.server.parameter_client import ParameterClient, StepUpdate


class Sender(Protocol):
    """Sends steps in order. A merged push carries the sequence of its last step."""

    def send(self, step: StepUpdate, *, sequence: int) -> None:
        """Accept a step."""
        ...

    def flush(self) -> None:
        """Return when the servers have all accepted steps."""
        ...

    def num_pending(self) -> int:
        """Return the number of steps that the servers do not have yet."""
        ...

    def close(self) -> None:
        """Stop; steps that were not flushed are lost."""
        ...


class DirectSender:
    """Merges ``num_merged`` steps into one push, and waits until the servers have it.

    ``sync`` uses 1; ``half_async`` may merge more.
    """

    def __init__(self, client: ParameterClient, *, num_merged: int, rule: Rule) -> None:
        self._client = client
        self._num_merged = num_merged
        self._rule: Rule = rule
        self._pending: list[tuple[int, StepUpdate]] = []

    def send(self, step: StepUpdate, *, sequence: int) -> None:
        """Accept a step, and push when there are enough."""
        self._pending.append((sequence, step))
        # Some servers may have this step already, so it must not be merged.
        is_repeated = sequence <= self._client.last_known_sequence
        if is_repeated or len(self._pending) >= self._num_merged:
            self.flush()

    def flush(self) -> None:
        """Push all accepted steps, even if fewer than usual."""
        if self._pending:
            push_merged(self._client, self._pending, self._rule)
            self._pending = []

    def num_pending(self) -> int:
        """Return the number of steps that were not pushed."""
        return len(self._pending)

    def close(self) -> None:
        """Drop steps that were not pushed."""
        self._pending = []


class BackgroundSender:
    """Pushes from a background thread, merging queued steps; ``send`` blocks on a full queue.

    At most ``num_queued`` steps are queued, and at most ``num_merged`` are being pushed.
    """

    def __init__(
        self, client: ParameterClient, *, num_queued: int, num_merged: int, rule: Rule
    ) -> None:
        self._client = client
        self._num_merged = num_merged
        self._rule: Rule = rule
        self._queue: queue.Queue[tuple[int, StepUpdate]] = queue.Queue(num_queued)
        self._last_accepted = 0  # sequences, of this process only
        self._last_pushed = 0
        self._is_stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="push", daemon=True)
        self._thread.start()

    def send(self, step: StepUpdate, *, sequence: int) -> None:
        """Queue a step."""
        self._wait_until(lambda: self._try_put((sequence, step)))
        self._last_accepted = sequence

    def wait_for(self, sequence: int) -> None:
        """Wait until the servers have a step and all before it."""
        wanted = min(sequence, self._last_accepted)
        self._wait_until(lambda: self._last_pushed >= wanted)

    def flush(self) -> None:
        """Wait until the queue is empty and all pushes are acknowledged."""
        self._wait_until(lambda: self._queue.unfinished_tasks == 0)

    def num_pending(self) -> int:
        """Return the number of steps that are queued or being pushed."""
        return self._queue.unfinished_tasks

    def close(self) -> None:
        """Stop the thread after its current push."""
        self._is_stopped.set()
        self._thread.join()

    def _try_put(self, item: tuple[int, StepUpdate]) -> bool:
        try:
            self._queue.put(item, timeout=0.01)
        except queue.Full:
            return False
        return True

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        """Wait for a condition; raises the error of the thread if it has failed."""
        while not is_done():
            if self._failure is not None:
                raise self._failure
            if not self._thread.is_alive():
                raise RuntimeError("the sender is closed")
            self._is_stopped.wait(0.001)

    def _run(self) -> None:
        try:
            while not self._is_stopped.is_set():
                steps = self._next_steps()
                if steps:
                    push_merged(self._client, steps, self._rule)
                    self._last_pushed = steps[-1][0]
                for _ in steps:
                    self._queue.task_done()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
            self._failure = error  # raised by send, flush and wait_for

    def _next_steps(self) -> list[tuple[int, StepUpdate]]:
        steps: list[tuple[int, StepUpdate]] = []
        try:
            steps.append(self._queue.get(timeout=0.05))
            # Some servers may have a repeated step already, so it must not be merged.
            while len(steps) < self._num_merged and steps[-1][0] > self._client.last_known_sequence:
                steps.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return steps


def push_merged(client: ParameterClient, steps: list[tuple[int, StepUpdate]], rule: Rule) -> None:
    """Push steps as one, with the sequence of the last."""
    client.push(merge_steps([step for _, step in steps], rule), sequence=steps[-1][0])


def build_sender(
    client: ParameterClient, mode: str, communicator: CommunicatorOptions, *, is_sgd: bool
) -> Sender:
    """Return the sender of a mode."""
    num_merged = communicator.max_merge_var_num
    if mode == "async":
        return BackgroundSender(
            client,
            num_queued=communicator.send_queue_size,
            num_merged=num_merged,
            rule="sum" if is_sgd or communicator.is_sgd_optimizer else "mean",
        )
    return DirectSender(client, num_merged=num_merged if mode == "half_async" else 1, rule="mean")
