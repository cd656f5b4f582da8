"""What a server answers. It acts upon a request only when the request is in its journal."""

import dataclasses
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fleetrec.core.errors import CheckpointError
from fleetrec.core.fault_points import fault_point
from fleetrec.server import admin
from fleetrec.server.cuts import LiveCut, read_commit, read_cut
from fleetrec.server.durable_state import DurableState, exit_on_partial_update
from fleetrec.server.gathers import Gathers
from fleetrec.server.initial import load_initial_rows
from fleetrec.server.push import check_ids, read_event_time, read_push
from fleetrec.server.service_options import FINISHED, START, ServiceOptions
from fleetrec.server.shard import Shard
from fleetrec.server.spec import ServedModel, read_model
from fleetrec.server.wire import Kind, Message, WireError, decode, encode, json_array
from fleetrec.server.workers import Worker, Workers

logger = logging.getLogger(__name__)

CHIEF = 0  # the worker that saves and loads


class Service:
    """One server's state behind its one lock; threads may call ``handle`` at any time."""

    def __init__(self, durable: DurableState, options: ServiceOptions) -> None:
        self._durable = durable
        self._options = options
        self._changed = threading.Condition()
        self._workers = Workers(options.num_workers)
        self._gathers = Gathers(options.num_workers)
        self._shard: Shard | None = None
        self._version = 0  # rises whenever the dense part has changed
        self._num_evictions = 0  # passes after which rows were evicted
        self._cut = LiveCut()
        self._finished: set[int] = set()  # workers that need this server no more
        self.is_finished = threading.Event()  # none does
        self._is_replaying = True
        self._handlers: dict[Kind, Callable[[Message], Message]] = {
            Kind.HELLO: self._hello,
            Kind.SETUP: self._set_up,
            Kind.PULL: self._pull,
            Kind.PUSH: self._push,
            Kind.END_PASS: self._end_pass,
            Kind.EVICT: self._evict,
            Kind.GATHER: self._gather,
            Kind.WORKER_PROGRESS: self._worker_progress,
            Kind.CUT: self._make_cut,
            Kind.SAVE: self._save,
            Kind.COMMIT: self._commit,
            **dict.fromkeys(admin.READS, self._read),
            **dict.fromkeys(admin.WRITES, self._write),
        }
        self._recover()

    def handle(self, message: Message) -> Message:
        """Answer a request; raises WireError for one that does not fit."""
        if message.kind not in self._handlers:
            raise WireError(f"{message.kind.name} is no request")
        return self._handlers[message.kind](message)

    def num_pending(self) -> int:
        """Return how many pushes wait for their step."""
        with self._changed:
            return self._workers.num_pending()

    def _recover(self) -> None:
        snapshot = self._durable.newest_snapshot()
        if snapshot is not None:
            self._load_state(self._durable.read_state(), snapshot)
        num_records = 0
        for record in self._durable.records():
            fault_point("replay")
            self._replay(decode(record))
            num_records += 1
        self._is_replaying = False
        if snapshot is not None or num_records:
            logger.info("recovered: %s and %d records", snapshot or "no snapshot", num_records)

    def _replay(self, message: Message) -> None:
        if message.kind == Kind.APPLY:
            self._apply_pending(message)
        elif message.kind == Kind.GATHER:
            self._add_contribution(message)
        else:
            self.handle(message)

    def _journal(self, message: Message) -> None:
        if not self._is_replaying:
            self._durable.append(encode(message) if message.content is None else message.content)

    # Who is there, and what is served.

    def _hello(self, message: Message) -> Message:
        """Tell a worker where it stands; with an incarnation, the worker takes its place."""
        with self._changed:
            worker = self._workers.of(message.worker)
            if message.incarnation > worker.incarnation:
                self._journal(message)
                self._workers.register(message.worker, message.incarnation)
                if message.worker == CHIEF:  # a save of the process before it is over
                    self._cut.drop()
            return Message(
                kind=Kind.OK,
                incarnation=worker.incarnation,
                sequence=worker.sequence,
                arrays=[
                    np.frombuffer(worker.progress, np.uint8),
                    json_array(
                        {
                            "is_set_up": self._shard is not None,
                            "num_passes": self._workers.num_passes,
                        }
                    ),
                    np.frombuffer(self._gathers.contribution(0, START, message.worker), np.uint8),
                ],
            )

    def _worker_progress(self, _: Message) -> Message:
        """Return the progress of every worker in what is held."""
        with self._changed:
            found = self._workers.applied()
        return Message(kind=Kind.OK, arrays=[np.frombuffer(one, np.uint8) for one in found])

    def _set_up(self, message: Message) -> Message:
        model = read_model(message)
        dense_P = message.array(1, np.float32)
        first, last = self._options.shard.part_of(model.num_dense)
        if len(dense_P) != last - first:
            raise WireError(f"expected {last - first} dense numbers, got {len(dense_P)}")
        with self._changed:
            if self._shard is not None:
                differences = self._shard.model.differences(model)
                if differences:
                    raise WireError(
                        f"the server holds another model: {', '.join(differences)} differ; "
                        "give it an empty folder, or the job that it was started with"
                    )
                return Message(kind=Kind.OK)
            self._journal(message)
            self._build(model, torch.from_numpy(dense_P.copy()))
            if self._options.initial is not None:
                load_initial_rows(self._require_shard(), self._options.initial)
            self._changed.notify_all()
        return Message(kind=Kind.OK)

    def _build(self, model: ServedModel, dense_P: torch.Tensor) -> None:
        self._shard = Shard(model, self._options.shard, dense_P)
        self._version = 1

    def _require_shard(self) -> Shard:
        if self._shard is None:
            raise WireError("the server has not been told what it serves; worker 0 does that")
        return self._shard

    # Steps.

    def _pull(self, message: Message) -> Message:
        """Answer with rows and dense numbers; in training, of the step that the worker is at."""
        shard = self._require_shard()
        if len(message.arrays) != len(shard.stores) + 1:
            raise WireError(f"expected ids of {len(shard.stores)} tables")
        ids = [message.array(place + 1, np.int64) for place in range(len(shard.stores))]
        for store, ids_N in zip(shard.stores.values(), ids, strict=True):
            check_ids(store, ids_N)
        known = message.array(0, np.uint64)
        if len(known) != 2:
            raise WireError("expected the version that is known, and whether news are wanted")
        is_training = message.sequence > 0
        with self._changed:
            if is_training:
                worker = self._workers.check_alive(message.worker, message.incarnation)
                waiting = self._wait_for_step(message, worker)
                if waiting is not None:
                    return waiting
            rows = shard.read(ids, as_new=is_training)
            version, wants_dense = map(int, known)
            if not wants_dense or version == self._version:
                dense_P = np.zeros(0, np.float32)
            else:
                version, dense_P = self._version, shard.dense.weights_P.numpy().copy()
            fault_point("pull")
            return Message(
                kind=Kind.OK,
                incarnation=shard.dense.num_steps,
                sequence=version,
                arrays=[dense_P, *rows],
            )

    def _wait_for_step(self, message: Message, worker: Worker) -> Message | None:
        if self._require_shard().model.mode != "sync":
            return None
        if message.sequence not in (worker.sequence, worker.sequence + 1):
            raise WireError(
                f"worker {message.worker} asks for step {message.sequence}, but its last push is "
                f"{worker.sequence}"
            )
        if worker.pending is None or message.sequence == worker.sequence:
            return None  # a worker that was restarted makes its step again, from the same rows
        self._workers.set_ready(message.worker)
        self._apply_if_complete()
        return self._wait(lambda: worker.pending is None, self._workers.missing)

    def _push(self, message: Message) -> Message:
        shard = self._require_shard()
        push = read_push(message, shard.stores, num_dense=len(shard.dense))
        with self._changed:
            worker = self._workers.check_alive(message.worker, message.incarnation)
            if message.sequence <= worker.sequence:
                return Message(kind=Kind.OK)  # it came before; the answer was lost
            is_next = message.sequence == worker.sequence + 1 and worker.pending is None
            if shard.model.mode == "sync" and not is_next:
                raise WireError(
                    f"worker {message.worker}: push {message.sequence} does not follow "
                    f"{worker.sequence}"
                )
            fault_point("push")
            self._journal(message)
            fault_point("push_logged")
            if shard.model.mode == "sync":
                self._workers.hold_push(message.worker, message.sequence, push)
            else:
                with exit_on_partial_update():
                    shard.apply([push])
                self._version += 1
                self._workers.record_push(message.worker, message.sequence, push.progress)
                self._snapshot_if_due()
            fault_point("push_done")
        return Message(kind=Kind.OK)

    def _end_pass(self, message: Message) -> Message:
        """Note that a worker has no more data in a pass; answers when nobody has."""
        number = message.sequence
        with self._changed:
            self._workers.check_alive(message.worker, message.incarnation)
            if number < self._workers.num_passes:
                return Message(kind=Kind.OK)
            self._workers.end_pass(message.worker)
            fault_point("leave")
            self._apply_if_complete(number)
            waiting = self._wait(lambda: self._workers.num_passes > number, self._workers.in_pass)
            return waiting or Message(kind=Kind.OK)

    def _apply_if_complete(self, number: int = 0) -> None:
        """Make the step if nobody is waited for; ``number`` is the pass that a worker leaves."""
        ends_pass = not self._workers.in_pass()
        if self._workers.missing() or not (ends_pass or self._workers.has_pending()):
            return
        done = Message(kind=Kind.APPLY, sequence=number + 1 if ends_pass else 0)
        fault_point("step")
        self._journal(done)
        fault_point("step_logged")
        self._apply_pending(done)
        fault_point("step_done")
        self._snapshot_if_due()
        self._changed.notify_all()

    def _apply_pending(self, done: Message) -> None:
        pushes = self._workers.take_pending()
        if pushes:
            with exit_on_partial_update():
                self._require_shard().apply(pushes)
            self._version += 1
        if done.sequence > 0:
            self._workers.start_next_pass(done.sequence - 1)

    def _wait(
        self, is_done: Callable[[], bool], missing: Callable[[], list[int]]
    ) -> Message | None:
        """Wait with patience; then return an answer that says for whom."""
        if self._changed.wait_for(is_done, timeout=self._options.wait_timeout_s):
            return None
        return Message(kind=Kind.WAIT, arrays=[np.array(missing(), np.uint32)])

    def _evict(self, message: Message) -> Message:
        """Evict rows after pass ``sequence``, once."""
        shard = self._require_shard()
        now = read_event_time(message)
        with self._changed:
            if message.sequence >= self._num_evictions:
                self._journal(message)
                with exit_on_partial_update():
                    shard.evict(now=now)
                self._num_evictions = message.sequence + 1
        return Message(kind=Kind.OK)

    def _gather(self, message: Message) -> Message:
        name = message.text(0)
        with self._changed:
            if not self._gathers.has(message.sequence, name, message.worker):
                self._workers.of(message.worker)
                self._journal(message)
                self._add_contribution(message)
                self._changed.notify_all()
            if name == FINISHED:
                return Message(kind=Kind.OK)
            waiting = self._wait(
                lambda: not self._gathers.missing(message.sequence, name),
                lambda: self._gathers.missing(message.sequence, name),
            )
            if waiting is not None:
                return waiting
            brought = self._gathers.result(message.sequence, name)
            return Message(
                kind=Kind.OK, arrays=[np.frombuffer(content, np.uint8) for content in brought]
            )

    def _add_contribution(self, message: Message) -> None:
        if message.text(0) == FINISHED:
            self._finish(message.worker)
            return
        content = message.array(1, np.uint8).tobytes()
        self._gathers.add(message.sequence, message.text(0), message.worker, content)

    def _finish(self, *workers: int) -> None:
        self._finished.update(workers)
        if len(self._finished) == self._options.num_workers:
            self.is_finished.set()

    # Whole tables and the whole dense part.

    def _make_cut(self, message: Message) -> Message:
        """Fix what is held now, so that it can be written while steps go on."""
        shard = self._require_shard()
        request = read_cut(message, shard)
        with self._changed:
            self._workers.check_alive(message.worker, message.incarnation)
            self._journal(message)
            self._cut.make(shard, request, progress=self._workers.applied())
            return self._cut.describe()

    def _save(self, message: Message) -> Message:
        return self._cut.write(message, timeout_s=self._options.wait_timeout_s)

    def _commit(self, message: Message) -> Message:
        shard = self._require_shard()
        request = read_commit(message, shard)
        with self._changed:
            self._workers.check_alive(message.worker, message.incarnation)
            self._journal(message)
            self._cut.finish(shard, request)
            self._snapshot_if_due()
        return Message(kind=Kind.OK)

    def _read(self, message: Message) -> Message:
        """Answer a request that changes nothing."""
        shard = self._require_shard()
        with self._changed:
            answer = admin.READS[message.kind](shard, message)
            return dataclasses.replace(answer, sequence=self._version)

    def _write(self, message: Message) -> Message:
        """Replace tables or the dense part; a snapshot replaces a record of it."""
        shard = self._require_shard()
        with self._changed:
            if self._workers.has_pending():
                raise WireError("a step is being made; tables are replaced between passes")
            self._cut.drop()
            admin.WRITES[message.kind](shard, message)
            self._version += 1
            self._save_state()
        return Message(kind=Kind.OK)

    def metrics(self) -> dict[str, float | dict[str, float]]:
        """Return figures for those who watch: of the server, and by table."""
        with self._changed:
            tables = {} if self._shard is None else self._shard.stats()
            by_table = {
                f"table_{key}": {name: float(its[key]) for name, its in tables.items()}
                for key in ("rows", "candidates", "bytes")
            }
            return {
                **by_table,
                "steps_total": float(max(0, self._version - 1)),
                "journal_bytes": float(self._durable.num_bytes),
            }

    # Snapshots of all this.

    def _snapshot_if_due(self) -> None:
        if self._is_replaying or self._workers.has_pending() or self._cut.is_live:
            return
        # A journal may become as long as what would replace it: so at most half of all writing is
        # snapshots, however large the tables are.
        if self._durable.num_bytes > max(
            self._options.snapshot_bytes, self._durable.snapshot_bytes
        ):
            try:
                self._save_state()
            except OSError as error:  # nothing is lost: the journal before it is still there
                logger.warning("no snapshot could be written: %s; trying again later", error)

    def _save_state(self) -> None:
        """Write a snapshot; between steps only, for it has no place for pushes that are held."""
        shard = self._require_shard()
        state: dict[str, Any] = {
            "model": shard.model.to_plain(),
            "portion": [shard.table_shard.index, shard.table_shard.count],
            "version": self._version,
            "num_evictions": self._num_evictions,
            "workers": self._workers.to_plain(),
            "gathers": self._gathers.to_plain(),
            "finished": sorted(self._finished),
        }
        self._durable.save_snapshot(shard.write, state)

    def _load_state(self, state: dict[str, Any], snapshot: Path) -> None:
        portion = self._options.shard
        if state["portion"] != [portion.index, portion.count]:
            raise CheckpointError(
                f"{snapshot}: is of server {state['portion'][0]} of {state['portion'][1]}, this is "
                f"{portion.index} of {portion.count}; start from a checkpoint instead"
            )
        model = ServedModel.model_validate(state["model"])
        first, last = portion.part_of(model.num_dense)
        self._build(model, torch.zeros(last - first))
        self._require_shard().read_folder(snapshot)
        self._version = state["version"]
        self._num_evictions = state["num_evictions"]
        self._workers.load(state["workers"])
        self._gathers.load(state["gathers"])
        self._finish(*state["finished"])
