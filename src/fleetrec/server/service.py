"""Request handling of a parameter server; effects are journalled first."""

import dataclasses
from collections.abc import Callable

import numpy as np
import torch

from fleetrec.core.fault_points import fault_point
from fleetrec.server import admin
from fleetrec.server.cuts import read_commit, read_cut
from fleetrec.server.durable_state import DurableState
from fleetrec.server.initial import load_initial_rows
from fleetrec.server.prometheus import Metrics, table_metrics
from fleetrec.server.service_options import FINISHED, START, ServiceOptions
from fleetrec.server.service_state import ServiceState
from fleetrec.server.spec import read_model
from fleetrec.server.steps import Steps
from fleetrec.server.wire import Kind, Message, WireError, decode, json_array

CHIEF = 0  # the worker that saves and loads


class Service:
    """One parameter server without its endpoint; ``handle`` is thread-safe."""

    def __init__(self, durable: DurableState, options: ServiceOptions) -> None:
        self._state = ServiceState(durable, options)
        self._steps = Steps(self._state)
        self.is_finished = self._state.is_finished
        self._handlers: dict[Kind, Callable[[Message], Message]] = {
            Kind.HELLO: self._hello,
            Kind.SETUP: self._set_up,
            Kind.PULL: self._steps.pull,
            Kind.PUSH: self._steps.push,
            Kind.END_PASS: self._steps.end_pass,
            Kind.EVICT: self._steps.evict,
            Kind.GATHER: self._gather,
            Kind.CUT: self._make_cut,
            Kind.SAVE: self._save,
            Kind.COMMIT: self._commit,
            **dict.fromkeys(admin.READS, self._read),
            **dict.fromkeys(admin.WRITES, self._write),
        }
        self._state.recover(self._replay)

    def handle(self, message: Message) -> Message:
        """Answer a request; raises WireError for one that does not fit."""
        if message.kind not in self._handlers:
            raise WireError(f"{message.kind.name} is not a request")
        return self._handlers[message.kind](message)

    def num_pending(self) -> int:
        """Return the number of pushes that wait for their step."""
        with self._state.changed:
            return self._state.workers.num_pending()

    def metrics(self) -> Metrics:
        """Return metrics of the server and of every table."""
        state = self._state
        with state.changed:
            tables = state.require_shard().stats() if state.is_set_up else {}
            return {
                **table_metrics(tables, ("rows", "candidates", "bytes")),
                "steps_total": float(max(0, state.version - 1)),
                "journal_bytes": float(state.journal_bytes),
            }

    def _replay(self, record: bytes) -> None:
        fault_point("replay")
        message = decode(record)
        if message.kind == Kind.APPLY:
            self._steps.apply_pending(message)
        elif message.kind == Kind.GATHER:  # without waiting for the other workers
            self._add_contribution(message)
        else:
            self.handle(message)

    # Workers.

    def _hello(self, message: Message) -> Message:
        """Return a worker's last push; a higher incarnation replaces the worker's process."""
        state = self._state
        with state.changed:
            worker = state.workers.of(message.worker)
            if message.incarnation > worker.incarnation:
                state.journal(message)
                state.workers.register(message.worker, message.incarnation)
                if message.worker == CHIEF:  # the replaced process cannot finish its save
                    state.cut.drop()
            status = {"is_set_up": state.is_set_up, "num_passes": state.workers.num_passes}
            start = state.gathers.contribution(0, START, message.worker)
            return Message(
                kind=Kind.OK,
                incarnation=worker.incarnation,
                sequence=worker.sequence,
                arrays=[
                    np.frombuffer(worker.progress, np.uint8),
                    json_array(status),
                    np.frombuffer(start, np.uint8),
                ],
            )

    def _gather(self, message: Message) -> Message:
        """Add a worker's contribution to an all-gather; answers when all have contributed."""
        state = self._state
        name, number = message.text(0), message.sequence
        with state.changed:
            if not state.gathers.has(number, name, message.worker):
                state.workers.of(message.worker)
                if name != FINISHED:
                    message.array(1, np.uint8)  # what is refused must not be in the journal
                state.journal(message)
                self._add_contribution(message)
                state.changed.notify_all()
            if name == FINISHED:
                return Message(kind=Kind.OK)
            waiting = state.wait(
                lambda: not state.gathers.missing(number, name),
                lambda: state.gathers.missing(number, name),
            )
            if waiting is not None:
                return waiting
            contents = state.gathers.result(number, name)
            arrays = [np.frombuffer(content, np.uint8) for content in contents]
            return Message(kind=Kind.OK, arrays=arrays)

    def _add_contribution(self, message: Message) -> None:
        if message.text(0) == FINISHED:
            self._state.finish(message.worker)
            return
        content = message.array(1, np.uint8).tobytes()
        self._state.gathers.add(message.sequence, message.text(0), message.worker, content)

    # The model.

    def _set_up(self, message: Message) -> Message:
        """Create the shard of a model; later calls must describe the same model."""
        state = self._state
        model = read_model(message)
        dense_P = message.array(1, np.float32)
        first, last = state.options.shard.part_of(model.num_dense)
        if len(dense_P) != last - first:
            raise WireError(f"expected {last - first} dense weights, got {len(dense_P)}")
        with state.changed:
            if state.is_set_up:
                differences = state.require_shard().model.differences(model)
                if differences:
                    raise WireError(
                        f"the server holds another model: {', '.join(differences)} differ; "
                        "give it an empty folder, or the job that it was started with"
                    )
                return Message(kind=Kind.OK)
            state.journal(message)
            shard = state.build_shard(model, torch.from_numpy(dense_P.copy()))
            if state.options.initial is not None:
                load_initial_rows(shard, state.options.initial)
            state.changed.notify_all()
        return Message(kind=Kind.OK)

    def _read(self, message: Message) -> Message:
        """Answer an admin request that changes nothing."""
        shard = self._state.require_shard()
        with self._state.changed:
            answer = admin.READS[message.kind](shard, message)
            return dataclasses.replace(answer, sequence=self._state.version)

    def _write(self, message: Message) -> Message:
        """Replace tables or the dense part; made durable by a snapshot, not by the journal."""
        state = self._state
        shard = state.require_shard()
        with state.changed:
            if state.workers.num_pending() > 0:
                raise WireError("a step is pending; tables can be replaced between passes only")
            state.cut.drop()
            admin.WRITES[message.kind](shard, message)
            state.version += 1
            state.save_snapshot()
        return Message(kind=Kind.OK)

    # Saving.

    def _make_cut(self, message: Message) -> Message:
        """Fix the current state, so that it can be written while steps continue."""
        state = self._state
        shard = state.require_shard()
        request = read_cut(message, shard)
        with state.changed:
            state.workers.check_alive(message.worker, message.incarnation)
            state.journal(message)
            state.cut.make(shard, request, progress=state.workers.applied())
            return state.cut.describe()

    def _save(self, message: Message) -> Message:
        """Write the files of the cut; takes no lock, so that steps continue."""
        return self._state.cut.write(message, timeout_s=self._state.options.wait_timeout_s)

    def _commit(self, message: Message) -> Message:
        """Commit the cut after publishing, or drop it."""
        state = self._state
        shard = state.require_shard()
        request = read_commit(message, shard)
        with state.changed:
            state.workers.check_alive(message.worker, message.incarnation)
            state.journal(message)
            state.cut.finish(request)
            state.save_snapshot_if_due()
        return Message(kind=Kind.OK)
