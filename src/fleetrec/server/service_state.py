"""State of a service, under one lock: the shard, the workers, the journal and the snapshots."""

import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fleetrec.core.errors import CheckpointError
from fleetrec.server.cuts import LiveCut
from fleetrec.server.durable_state import DurableState
from fleetrec.server.gathers import Gathers
from fleetrec.server.service_options import ServiceOptions
from fleetrec.server.shard import Shard
from fleetrec.server.spec import ServedModel
from fleetrec.server.wire import Kind, Message, WireError, encode
from fleetrec.server.workers import Workers

logger = logging.getLogger(__name__)


class ServiceState:
    """What a server holds, and how it survives a restart.

    Every access needs ``changed``, the lock and condition of the service. A request is appended to
    the journal before its effect; from time to time a snapshot replaces the journal. It is written
    in the background, without the lock.
    """

    def __init__(self, durable: DurableState, options: ServiceOptions) -> None:
        self._durable = durable
        self._shard: Shard | None = None
        self._finished: set[int] = set()  # workers that have finished
        self.options = options
        self.changed = threading.Condition()
        self.workers = Workers(options.num_workers)
        self.gathers = Gathers(options.num_workers)
        self.cut = LiveCut()
        self.version = 0  # of the dense weights; rises with every change
        self.num_evictions = 0  # passes after which rows were evicted
        self.is_finished = threading.Event()  # set when all workers have finished
        self.is_replaying = True  # until the journal has been read

    @property
    def is_set_up(self) -> bool:
        """Return whether worker 0 has sent the model."""
        return self._shard is not None

    @property
    def journal_bytes(self) -> int:
        """Return the length of the journal since the newest snapshot."""
        return self._durable.num_bytes

    def require_shard(self) -> Shard:
        """Return the shard; raises WireError before SETUP."""
        if self._shard is None:
            raise WireError("the server has no model yet; worker 0 sends it with SETUP")
        return self._shard

    def build_shard(self, model: ServedModel, dense_P: torch.Tensor) -> Shard:
        """Create empty tables and the dense part."""
        self._shard = Shard(model, self.options.shard, dense_P)
        self.version = 1
        return self._shard

    def journal(self, message: Message) -> None:
        """Append a request to the journal, unless it comes from there."""
        if not self.is_replaying:
            self._durable.append(encode(message) if message.content is None else message.content)

    def wait(self, is_done: Callable[[], bool], missing: Callable[[], list[int]]) -> Message | None:
        """Wait for other workers; after the timeout, return an answer that names them."""
        if self.changed.wait_for(is_done, timeout=self.options.wait_timeout_s):
            return None
        return Message(kind=Kind.WAIT, arrays=[np.array(missing(), np.uint32)])

    def finish(self, *workers: int) -> None:
        """Record workers that have finished; the server stops after the last of them."""
        self._finished.update(workers)
        if len(self._finished) == self.options.num_workers:
            self.is_finished.set()

    def recover(self, replay: Callable[[bytes], None]) -> None:
        """Load the newest snapshot and replay the records that follow it."""
        snapshot = self._durable.newest_snapshot()
        if snapshot is not None:
            self._load_snapshot(self._durable.read_state(), snapshot)
        num_records = 0
        for record in self._durable.records():
            replay(record)
            num_records += 1
        self.is_replaying = False
        if snapshot is not None or num_records:
            logger.info("recovered: %s and %d records", snapshot or "no snapshot", num_records)

    def save_snapshot_if_due(self) -> None:
        """Start to replace a long journal by a snapshot, between steps and with no cut open."""
        if self.is_replaying or self.workers.num_pending() > 0 or self.cut.is_live:
            return
        if self._durable.is_saving:
            return
        # The journal may grow to the size of the snapshot that would replace it. So snapshots are
        # at most half of all writing, whatever the size of the tables.
        limit = max(self.options.snapshot_bytes, self._durable.snapshot_bytes)
        if self._durable.num_bytes <= limit:
            return
        snapshot = self.require_shard().snapshot()
        try:
            self._durable.start_snapshot(snapshot, self._to_plain())
        except OSError as error:  # nothing is lost: the older journal is still there
            snapshot.close()
            logger.warning("no snapshot could be written: %s; trying again later", error)

    def save_snapshot(self) -> None:
        """Write a snapshot; only between steps, since it cannot hold pending pushes."""
        snapshot = self.require_shard().snapshot()
        with contextlib.closing(snapshot):
            self._durable.save_snapshot(snapshot, self._to_plain())

    def _to_plain(self) -> dict[str, Any]:
        shard = self.require_shard()
        return {
            "model": shard.model.to_plain(),
            "portion": [shard.table_shard.index, shard.table_shard.count],
            "version": self.version,
            "num_evictions": self.num_evictions,
            "workers": self.workers.to_plain(),
            "gathers": self.gathers.to_plain(),
            "finished": sorted(self._finished),
        }

    def _load_snapshot(self, state: dict[str, Any], snapshot: Path) -> None:
        shard = self.options.shard
        index, count = state["portion"]
        if (index, count) != (shard.index, shard.count):
            raise CheckpointError(
                f"{snapshot}: was written by server {index} of {count}, this is server "
                f"{shard.index} of {shard.count}; start from a checkpoint instead"
            )
        model = ServedModel.model_validate(state["model"])
        first, last = shard.part_of(model.num_dense)
        self.build_shard(model, torch.zeros(last - first)).read_folder(snapshot)
        self.version = state["version"]
        self.num_evictions = state["num_evictions"]
        self.workers.load(state["workers"])
        self.gathers.load(state["gathers"])
        self.finish(*state["finished"])
