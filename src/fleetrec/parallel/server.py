"""Several workers make the steps; servers hold the rows and the dense network."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fleetrec.config.job import ClusterOptions, CommunicatorOptions, OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import CheckpointError
from fleetrec.core.faults import reach
from fleetrec.core.topology import Topology
from fleetrec.embedding.native_store import identity_of
from fleetrec.embedding.record import StoredTable, TableRecord, WrittenTable, to_hex
from fleetrec.embedding.remote_lookup import RemoteLookup, Rows
from fleetrec.embedding.snapshot import fingerprint_of
from fleetrec.embedding.table import RowOptimizer
from fleetrec.models.base import Model
from fleetrec.parallel.flat import FlatParameters
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.kept import join_kept, split_kept
from fleetrec.parallel.saved import dense_weights, table_of
from fleetrec.parallel.strategy import SavedPhase, State, Step
from fleetrec.server.client import ClientOptions
from fleetrec.server.dense import WEIGHTS
from fleetrec.server.link import Link
from fleetrec.server.link import Step as Told
from fleetrec.server.sender import BackgroundSender, DirectSender, Sender
from fleetrec.server.spec import ServedModel
from fleetrec.server.wire import Array

SHARD_BYTES = 1 << 26  # of weights, roughly, in one file of one server


Wanted = Literal["sync", "async", "half_async", "geo"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a worker needs to know to join the others."""

    topology: Topology
    mode: Wanted
    client: ClientOptions = dataclasses.field(default_factory=ClientOptions)
    communicator: CommunicatorOptions = dataclasses.field(default_factory=CommunicatorOptions)
    geo_push_steps: int = 100


def join_cluster(
    options: ClusterOptions,
    topology: Topology,
    *,
    token: str | None,
    authority: Path | None = None,
) -> Cluster:
    """Return what a worker of a job needs to know to join the others."""
    communicator = options.communicator
    return Cluster(
        topology=topology,
        mode=options.strategy,
        client=ClientOptions(
            token=token,
            authority=authority,
            deadline_s=communicator.rpc_deadline_s,
            num_threads=communicator.thread_pool_size,
        ),
        communicator=communicator,
        geo_push_steps=options.geo_push_steps,
    )


class ServerStrategy:
    """A worker: pulls what its batch needs, computes, and pushes what it learnt.

    In ``sync`` all workers make one step together, on rows of the same version. In ``async`` pushes
    go out behind the worker's back and are applied as they come. In ``half_async`` a worker waits
    for its own pushes, but for nobody else's.
    """

    def __init__(
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        device: torch.device,
        seed: int,
        cluster: Cluster,
        frozen: Collection[str] = (),
    ) -> None:
        collection = model.embedding_collection()
        # Called with a step before servers hear of it, by whom keeps something of every step.
        self.before_push: Callable[[Batch, Step], None] = lambda *_: None
        self._model = model.to(device)
        self._device = device
        self._seed = seed
        self._optimizer = optimizer
        self._tables = collection.tables
        self._num_servers = cluster.topology.num_servers
        self._counts_clicks = any(table.counts_clicks for table in collection.tables.values())
        frozen_tables = freeze(model, collection.tables, frozen)
        self._flat = FlatParameters(model)
        served = ServedModel(
            tables=tuple(collection.tables.values()),
            num_dense=len(self._flat),
            optimizer=optimizer,
            seed=seed,
            mode="sync" if cluster.mode == "sync" else "async",
        )
        self._link = Link(cluster.topology, served, cluster.client)
        self._lookup = RemoteLookup(collection, self._link.stores, frozen=frozen_tables)
        if self._link.worker == 0:
            self._link.set_up(self._flat.values())
        standing = self._link.enter()
        self._sequence = standing.sequence
        self._sender = _build_sender(self._link, cluster, optimizer)
        self._dense_interval = (
            1 if cluster.mode == "sync" else cluster.communicator.max_send_grad_num_before_recv
        )
        self._progress, buffers = split_kept(standing.progress)
        if self.is_chief and not self._progress:
            # It has loaded already what the run begins with; others may have made steps since.
            self._progress = standing.begun
        model.load_state_dict(buffers, strict=False)

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that loads and saves for all."""
        return self._link.worker == 0

    def keep(self, progress: bytes) -> None:
        """Say where the run stands behind the next step; servers keep it with the step."""
        self._progress = progress

    def recall(self) -> bytes:
        """Return what was kept with the last step that all servers have."""
        return self._progress

    def gather(self, name: str, content: bytes, *, number: int) -> list[bytes]:
        """Meet the other workers; returns what all bring, in their order."""
        return self._link.gather(name, content, number=number)

    def num_waiting(self) -> int:
        """Return how many steps the servers do not have yet."""
        return self._sender.num_waiting()

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch; what servers have of it outlives this process."""
        self._model.train()
        sequence = self._sequence + 1
        self._seed_step(sequence)
        labels_B = batch.label(self._model.tasks[0].label) if self._counts_clicks else None
        fetch = functools.partial(self._fetch, sequence=sequence)
        looked_up = self._lookup.fetch(batch, fetch, training=True, labels_B=labels_B)
        batch = self._on_device(batch, looked_up.vectors)
        outputs = self._model(batch)
        loss = self._model.loss(outputs, batch)
        self._model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        reach("compute")
        told = Told(
            progress=join_kept(self._progress, self._model),
            num_samples=batch.num_samples,
            event_time=batch.event_time,
            grads_P=self._flat.grads(),
            tables=self._lookup.sum(looked_up),
        )
        detached = {name: value.detach() for name, value in outputs.items()}
        step = Step(outputs=detached, loss=loss.detach())
        self.before_push(batch, step)
        self._sender.send(told, sequence=sequence)
        self._sequence = sequence
        return step

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Step:
        """Return the outputs of the model in evaluation, and their loss."""
        self._model.eval()
        self._sender.flush()
        fetch = functools.partial(self._fetch, sequence=0)
        looked_up = self._lookup.fetch(batch, fetch, training=False)
        batch = self._on_device(batch, looked_up.vectors)
        outputs = self._model(batch)
        return Step(outputs=outputs, loss=self._model.loss(outputs, batch))

    def end_pass(self, *, epoch: int) -> None:
        """Wait until no worker has data left; then rows that are not wanted any more go."""
        self._sender.flush()
        self._link.leave(epoch)
        self._link.evict(epoch)

    def table_stats(self) -> dict[str, dict[str, int]]:
        """Return rows, candidates, bytes, created and evicted of every growing table."""
        growing = [name for name, table in self._tables.items() if table.num_rows is None]
        if not growing:
            return {}
        found = self._link.stats()
        return {name: _sums([one[name] for one in found]) for name in growing}

    def state(self) -> State:
        """Return weights and optimizer state, as a single process has them."""
        found = self._link.dense_state()
        self._flat.set_values(found.pop(WEIGHTS))
        slots: dict[str, Tensor] = {}
        for key, value in found.items():
            if len(value) == len(self._flat):
                its = self._flat.by_name(value)
            else:  # one number for all
                its = {name: torch.tensor(float(value[0])) for name in self._flat.names}
            slots |= {f"{name}/{key}": tensor for name, tensor in its.items()}
        state: dict[str, Mapping[str, Tensor]] = {"model": dict(self._model.state_dict())}
        if len(self._flat):
            state["optimizer"] = slots
        return state

    def write_tables(self, directory: Path, *, parent: str | None) -> dict[str, WrittenTable]:
        """Let all servers write their files of every table, side by side."""
        assert parent is None, "servers write whole tables"
        stats = self._link.stats()
        shards_each = {name: self._shards_each(name, stats) for name in self._tables}
        for name in self._tables:
            (directory / name).mkdir(parents=True)
        found = self._link.save(directory, shards_each)
        reach("save")
        return {
            name: WrittenTable(
                record=self._record(
                    name,
                    [one["tables"][name] for one in found],
                    [one["stats"][name] for one in found],
                ),
                commit=lambda: None,
            )
            for name in self._tables
        }

    def load_tables(self, tables: Mapping[str, StoredTable]) -> None:
        """Take up tables exactly; after an error they are empty."""
        try:
            self._link.load([table_of(tables, name) for name in self._tables], exactly=True)
        except CheckpointError:
            self.clear_tables()
            raise

    def clear_tables(self) -> None:
        """Forget all rows."""
        self._link.clear()

    def load_state(self, state: State) -> None:
        """Take up weights and optimizer state exactly."""
        self._load_dense(state["model"])
        slots: dict[str, dict[str, Tensor]] = {}
        for name, value in state.get("optimizer", {}).items():
            parameter, _, key = name.rpartition("/")
            if parameter:  # else it is the number of steps, which servers do not count
                slots.setdefault(key, {})[parameter] = value
        dense = {WEIGHTS: self._flat.values()}
        for key, values in slots.items():
            is_single = all(value.ndim == 0 for value in values.values()) and key == "step"
            one = next(iter(values.values()))
            dense[key] = (
                np.array([float(one)], np.float32) if is_single else self._flat.from_names(values)
            )
        self._link.set_dense(dense)

    def load_weights(self, saved: SavedPhase) -> None:
        """Take up model weights and rows, which must fit; optimizers begin anew."""
        self._load_dense(dense_weights(saved.tensors))
        self._link.set_dense({WEIGHTS: self._flat.values()})
        self._link.load([table_of(saved.tables, name) for name in self._tables], exactly=False)

    def variables(self) -> list[str]:
        """Return the names under which parameters and tables are loaded or frozen."""
        return [*self._model.state_dict(), *self._tables]

    def load_variables(self, saved: SavedPhase, names: Collection[str]) -> list[str]:
        """Take up the named variables that the checkpoint has; returns those that were loaded."""
        own = self._model.state_dict()
        given = saved.tensors.get("model", {})
        fit = [n for n in names if n in own and n in given and own[n].shape == given[n].shape]
        self._load_dense({**own, **{name: given[name] for name in fit}})
        self._link.set_dense({WEIGHTS: self._flat.values()})
        tables = [
            name
            for name in names
            if name in self._tables
            and name in saved.tables
            and saved.tables[name].record.identity.dim == self._tables[name].dim
        ]
        self._link.load([saved.tables[name] for name in tables], exactly=False)
        return [*fit, *tables]

    def frozen_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table, for an inference model."""
        frozen = {}
        for name in self._tables:
            ids_N, rows_ND = self._link.dump(name)
            frozen[name] = {"ids": torch.from_numpy(ids_N), "rows": torch.from_numpy(rows_ND)}
        return frozen

    def finish(self) -> None:
        """Tell the servers that this worker needs them no more."""
        self._sender.flush()
        self._link.finish()

    def close(self) -> None:
        """Hang up."""
        self._sender.close()
        self._link.close()

    def _fetch(
        self, ids: Mapping[str, Array], *, training: bool, sequence: int
    ) -> Mapping[str, Rows]:
        assert training == (sequence > 0)
        interval = self._dense_interval
        is_due = sequence == 0 or sequence % interval == 1 % interval
        rows, dense_P = self._link.pull(ids, sequence=sequence, wants_dense=is_due)
        self._flat.set_values(dense_P)
        return rows

    def _seed_step(self, sequence: int) -> None:
        """Let chance depend on the worker and its place alone, so that a repeated step is equal."""
        place = self._progress or str(sequence).encode()
        digest = hashlib.blake2b(
            f"{self._seed}/{self._link.worker}/".encode() + place, digest_size=8
        ).digest()
        torch.manual_seed(int.from_bytes(digest, "little"))

    def _load_dense(self, weights: Mapping[str, Tensor]) -> None:
        try:
            self._model.load_state_dict(dict(weights))
        except RuntimeError as error:
            raise CheckpointError(f"the checkpoint does not fit the model: {error}") from error

    def _on_device(self, batch: Batch, vectors: Mapping[str, Tensor]) -> Batch:
        if self._device.type == "cpu":
            return batch.with_embedded(vectors)
        moved = {name: vector.to(self._device) for name, vector in vectors.items()}
        return batch.to(self._device).with_embedded(moved)

    def _shards_each(self, table: str, stats: list[dict[str, dict[str, int]]]) -> int:
        most = max(one[table]["rows"] for one in stats)
        wanted = 1 + most * 4 * self._tables[table].dim // SHARD_BYTES
        return min(wanted, 1024 // self._num_servers)

    def _record(
        self, table: str, written: list[dict[str, object]], stats: list[dict[str, int]]
    ) -> TableRecord:
        crcs = [crc for one in written for crc in one["crcs"]]  # type: ignore[attr-defined]
        totals = _sums(stats)
        return TableRecord(
            identity=identity_of(
                self._tables[table], RowOptimizer(name=self._optimizer.name), seed=self._seed
            ),
            kind="base",
            parent=None,
            version=written[0]["version"],
            fingerprint=to_hex(fingerprint_of(crcs)),
            rows=totals["rows"],
            candidates=totals["candidates"],
            created=totals["created"],
            evicted=totals["evicted"],
        )


def _build_sender(link: Link, cluster: Cluster, optimizer: OptimizerOptions) -> Sender:
    communicator = cluster.communicator
    is_sum = optimizer.name == "sgd" or communicator.is_sgd_optimizer
    num_together = communicator.max_merge_var_num
    if cluster.mode == "async":
        return BackgroundSender(
            link,
            num_queued=communicator.send_queue_size,
            num_together=num_together,
            rule="sum" if is_sum else "mean",
        )
    if cluster.mode == "half_async":
        return DirectSender(link, num_together=num_together, rule="mean")
    return DirectSender(link, num_together=1, rule="mean")


def _sums(parts: list[dict[str, int]]) -> dict[str, int]:
    return {key: sum(part[key] for part in parts) for key in parts[0]}
