"""Training steps on a server: PULL, PUSH, END_PASS and EVICT."""

import numpy as np

from fleetrec.core.fault_points import fault_point
from fleetrec.server.durable_state import exit_on_partial_update
from fleetrec.server.evict_request import read_eviction
from fleetrec.server.push import check_ids, read_push
from fleetrec.server.service_state import ServiceState
from fleetrec.server.shard import Shard
from fleetrec.server.wire import Array, Kind, Message, WireError
from fleetrec.server.workers import Worker


class Steps:
    """Handles the requests of training steps.

    In ``async`` a push is applied when it arrives. In ``sync`` it stays pending until every worker
    in the pass is ready; then all pending pushes become one step (see ``Workers``).
    """

    def __init__(self, state: ServiceState) -> None:
        self._state = state

    def pull(self, message: Message) -> Message:
        """Return rows and dense weights; in training, those of the worker's current step."""
        state = self._state
        shard = state.require_shard()
        ids = read_ids(message, shard)
        known = message.array(0, np.uint64)
        if len(known) != 2:
            raise WireError("expected the known version of the dense weights, and 1 to get newer")
        is_training = message.sequence > 0
        with state.changed:
            if is_training:
                worker = state.workers.check_alive(message.worker, message.incarnation)
                waiting = self._wait_for_step(message, worker)
                if waiting is not None:
                    return waiting
            rows = shard.read(ids, as_new=is_training)
            version, wants_dense = map(int, known)
            if not wants_dense or version == state.version:
                dense_P = np.zeros(0, np.float32)
            else:
                version, dense_P = state.version, shard.dense.weights_P.numpy().copy()
            fault_point("pull")
            return Message(
                kind=Kind.OK,
                incarnation=shard.dense.num_steps,
                sequence=version,
                arrays=[dense_P, *rows],
            )

    def push(self, message: Message) -> Message:
        """Apply a push, or hold it until its step is complete; a repeated push does nothing."""
        state = self._state
        shard = state.require_shard()
        push = read_push(message, shard.stores, num_dense=len(shard.dense))
        with state.changed:
            worker = state.workers.check_alive(message.worker, message.incarnation)
            if message.sequence <= worker.sequence:
                return Message(kind=Kind.OK)  # a retry: the first answer was lost
            is_next = message.sequence == worker.sequence + 1 and worker.pending is None
            if shard.model.mode == "sync" and not is_next:
                raise WireError(
                    f"worker {message.worker}: push {message.sequence} does not follow "
                    f"{worker.sequence}"
                )
            fault_point("push")
            state.journal(message)
            fault_point("push_logged")
            if shard.model.mode == "sync":
                state.workers.hold_push(message.worker, message.sequence, push)
            else:
                with exit_on_partial_update():
                    shard.apply([push])
                state.version += 1
                state.workers.record_push(message.worker, message.sequence, push.progress)
                state.save_snapshot_if_due()
            fault_point("push_done")
        return Message(kind=Kind.OK)

    def end_pass(self, message: Message) -> Message:
        """Record that a worker has no more data in a pass; answers when all workers are done."""
        state = self._state
        number = message.sequence
        with state.changed:
            state.workers.check_alive(message.worker, message.incarnation)
            if number < state.workers.num_passes:
                return Message(kind=Kind.OK)
            state.workers.end_pass(message.worker)
            fault_point("leave")
            self._apply_if_complete(number)
            waiting = state.wait(lambda: state.workers.num_passes > number, state.workers.in_pass)
            return waiting or Message(kind=Kind.OK)

    def evict(self, message: Message) -> Message:
        """Evict rows once after pass ``sequence``."""
        state = self._state
        shard = state.require_shard()
        eviction = read_eviction(message)
        with state.changed:
            if message.sequence >= state.num_evictions:
                state.journal(message)
                with exit_on_partial_update():
                    shard.evict(eviction)
                state.num_evictions = message.sequence + 1
        return Message(kind=Kind.OK)

    def apply_pending(self, record: Message) -> None:
        """Apply the pending pushes as one step, and end a pass, as a record of kind APPLY says."""
        state = self._state
        pushes = state.workers.take_pending()
        if pushes:
            with exit_on_partial_update():
                state.require_shard().apply(pushes)
            state.version += 1
        if record.sequence > 0:
            state.workers.start_next_pass(record.sequence - 1)

    def _wait_for_step(self, message: Message, worker: Worker) -> Message | None:
        """Wait until the worker's last push is applied; returns a WAIT answer on timeout."""
        state = self._state
        if state.require_shard().model.mode != "sync":
            return None
        if message.sequence not in (worker.sequence, worker.sequence + 1):
            raise WireError(
                f"worker {message.worker} asks for step {message.sequence}, but its last push is "
                f"{worker.sequence}"
            )
        if worker.pending is None or message.sequence == worker.sequence:
            return None  # a restarted worker repeats its step from the same rows
        state.workers.set_ready(message.worker)
        self._apply_if_complete()
        return state.wait(lambda: worker.pending is None, state.workers.missing)

    def _apply_if_complete(self, number: int = 0) -> None:
        """Apply the step if no worker is missing; ``number`` is the pass that a worker ends."""
        state = self._state
        ends_pass = not state.workers.in_pass()
        if state.workers.missing() or not (ends_pass or state.workers.num_pending() > 0):
            return
        record = Message(kind=Kind.APPLY, sequence=number + 1 if ends_pass else 0)
        fault_point("step")
        state.journal(record)
        fault_point("step_logged")
        self.apply_pending(record)
        fault_point("step_done")
        state.save_snapshot_if_due()
        state.changed.notify_all()


def read_ids(message: Message, shard: Shard) -> list[Array]:
    """Return the ids of a PULL by table; raises WireError if they do not fit the tables."""
    if len(message.arrays) != len(shard.stores) + 1:
        raise WireError(f"expected ids for {len(shard.stores)} tables")
    ids = [message.array(index + 1, np.int64) for index in range(len(shard.stores))]
    for store, ids_N in zip(shard.stores.values(), ids, strict=True):
        check_ids(store, ids_N)
    return ids
