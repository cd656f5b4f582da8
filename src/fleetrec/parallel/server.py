"""Several workers make the steps; servers hold the rows and the dense network."""

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from fleetrec.checkpoint.staging import Staging
from fleetrec.config.job import OptimizerOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.errors import CheckpointError
from fleetrec.core.faults import reach
from fleetrec.embedding.native_store import identity_of
from fleetrec.embedding.record import StoredTable, WrittenTable
from fleetrec.embedding.remote_lookup import RemoteLookup, Rows, UniqueIds
from fleetrec.models.base import Model
from fleetrec.parallel.ahead import Ahead, Pulled
from fleetrec.parallel.cluster import Cluster
from fleetrec.parallel.flat import FlatParameters
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.kept import join_kept, split_kept
from fleetrec.parallel.parts import num_shards_each, record_of_parts, sum_stats
from fleetrec.parallel.saved import dense_weights, table_of
from fleetrec.parallel.strategy import STEP, SavedPhase, State, Step
from fleetrec.parallel.transfer import transfer_to
from fleetrec.server.dense import NUM_STEPS, WEIGHTS
from fleetrec.server.link import Link
from fleetrec.server.link import Step as Told
from fleetrec.server.sender import BackgroundSender, build_sender
from fleetrec.server.spec import ServedModel


class ServerStrategy:
    """A worker: pulls what its batch needs, computes, and pushes what it learnt.

    In ``sync`` all workers make one step together, on rows of the same version. In ``async`` pushes
    go out behind the worker's back and are applied as they come. In ``half_async`` a worker waits
    for its own pushes, but for nobody else's. Without ``own_optimizers`` servers move all rows by
    the optimizer that is given, whatever their tables bring along.
    """

    def __init__(  # noqa: PLR0913 (what one process needs, and how the servers are used)
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        device: torch.device,
        seed: int,
        cluster: Cluster,
        frozen: Collection[str] = (),
        own_optimizers: bool = True,
    ) -> None:
        collection = model.embedding_collection()
        # Called with a step before servers hear of it, by whom keeps something of every step.
        self.before_push: Callable[[Batch, Step], None] = lambda *_: None
        self._model = model.to(device)
        self._transfer = transfer_to(device)
        self._seed = seed
        self._tables = {
            name: table if own_optimizers else dataclasses.replace(table, own_optimizer=None)
            for name, table in collection.tables.items()
        }
        self._counts_clicks = any(table.counts_clicks for table in self._tables.values())
        frozen_tables = freeze(model, collection.tables, frozen)
        self._flat = FlatParameters(model)
        served = ServedModel(
            tables=tuple(self._tables.values()),
            num_dense=len(self._flat),
            optimizer=optimizer,
            seed=seed,
            mode="sync" if cluster.mode == "sync" else "async",
        )
        self._served = served
        self._link = Link(cluster.topology, served, cluster.client)
        self._lookup = RemoteLookup(collection, self._link.stores, frozen=frozen_tables)
        if self._link.worker == 0:
            self._link.set_up(self._flat.values())
        standing = self._link.enter()
        self._sequence = standing.sequence
        self._num_passes_before = standing.num_passes
        of_rows = {served.row_optimizer(table).name for table in served.tables}
        self._sender = build_sender(
            self._link,
            cluster.mode,
            cluster.communicator,
            is_sgd=of_rows | {optimizer.name} == {"sgd"},
        )
        self._ahead: Ahead | None = None
        if cluster.communicator.pull_ahead and isinstance(self._sender, BackgroundSender):
            self._ahead = Ahead(self._pull, wait_for=self._sender.wait_for)
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

    @property
    def num_passes_before(self) -> int:
        """How many passes all workers had made when this process joined them."""
        return self._num_passes_before

    def gather(self, name: str, content: bytes, *, number: int) -> list[bytes]:
        """Meet the other workers; returns what all bring, in their order."""
        return self._link.gather(name, content, number=number)

    def together(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:  # noqa: ARG002
        """Yield the batches: workers need not make equally many steps."""
        return batches

    def agrees(self, wish: bool) -> bool:  # noqa: FBT001
        """Tell whether it is wished: a worker may stop alone."""
        return wish

    def standings(self) -> list[bytes]:
        """Wait until the servers have applied the steps so far; returns where each worker was."""
        self._settle()
        self._link.wait_for_step(self._sequence + 1)
        return [split_kept(kept)[0] for kept in self._link.standings()]

    def num_waiting(self) -> int:
        """Return how many steps the servers do not have yet."""
        return self._sender.num_waiting()

    @property
    def looks_ahead(self) -> bool:
        """Whether rows are pulled before it is their turn."""
        return self._ahead is not None

    def expect(self, batch: Batch) -> None:
        """Pull the rows of this batch while the one before it is computed."""
        assert self._ahead is not None
        self._ahead.expect(batch)

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch; what servers have of it outlives this process."""
        self._model.train()
        sequence = self._sequence + 1
        self._seed_step(sequence)
        pulled = self._take_pulled(batch, sequence=sequence)
        looked_up = self._lookup.look_up(pulled.fetched, training=True)
        sent = self._transfer.send(batch, looked_up.vectors)
        outputs = self._model(sent)
        loss = self._model.loss(outputs, sent)
        self._model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._transfer.bring_back(sent, looked_up.vectors)
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
        self._settle()
        pulled = self._pull(batch, sequence=0)
        self._flat.set_values(pulled.dense_P)
        looked_up = self._lookup.look_up(pulled.fetched, training=False)
        sent = self._transfer.send(batch, looked_up.vectors)
        outputs = self._model(sent)
        return Step(outputs=outputs, loss=self._model.loss(outputs, sent))

    def end_pass(self, *, epoch: int) -> None:
        """Wait until no worker has data left; then rows that are not wanted any more go."""
        self._settle()
        self._link.leave(epoch)
        self._link.evict(epoch)

    def table_stats(self) -> dict[str, dict[str, int]]:
        """Return rows, candidates, bytes, created and evicted of every growing table."""
        growing = [name for name, table in self._tables.items() if table.num_rows is None]
        if not growing:
            return {}
        found = self._link.stats()
        return {name: sum_stats([one[name] for one in found]) for name in growing}

    def state(self) -> State:
        """Return weights and optimizer state, as a single process has them."""
        found = self._link.dense_state()
        self._flat.set_values(found.pop(WEIGHTS))
        slots: dict[str, Tensor] = {}
        num_steps = found.pop(NUM_STEPS, None)
        if num_steps is not None:
            slots[STEP] = torch.tensor(int(num_steps[0]))
        for key, value in found.items():
            if len(value) == len(self._flat):
                its = self._flat.by_name(value)
            else:  # one number for all
                its = {name: torch.tensor(float(value[0])) for name in self._flat.names}
            slots |= {f"{name}/{key}": tensor for name, tensor in its.items()}
        state: dict[str, Mapping[str, Tensor]] = {"model": dict(self._model.state_dict())}
        if len(self._flat) or slots:
            state["optimizer"] = slots
        return state

    def write_tables(
        self, staging: Staging, folder: str, *, parent: str | None
    ) -> dict[str, WrittenTable]:
        """Let all servers write their files of every table, side by side."""
        assert parent is None, "servers write whole tables"
        stats = self._link.stats()
        shards_each = {
            name: num_shards_each(table, [one[name] for one in stats])
            for name, table in self._tables.items()
        }
        found = self._link.save(staging, folder, shards_each)
        reach("save")
        return {
            name: WrittenTable(
                record=record_of_parts(
                    identity_of(table, self._served.row_optimizer(table), seed=self._seed),
                    [one["tables"][name] for one in found],
                    [one["stats"][name] for one in found],
                ),
                commit=lambda: None,
            )
            for name, table in self._tables.items()
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
            if parameter:
                slots.setdefault(key, {})[parameter] = value
        dense = {WEIGHTS: self._flat.values()}
        if STEP in state.get("optimizer", {}):
            dense[NUM_STEPS] = np.array([float(state["optimizer"][STEP])], np.float32)
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
        if self.is_chief:
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
        self._settle()
        self._link.finish()

    def close(self) -> None:
        """Hang up."""
        self._sender.close()
        self._link.close()
        if self._ahead is not None:
            self._ahead.close()

    def _take_pulled(self, batch: Batch, *, sequence: int) -> Pulled:
        """Return what a step begins with, and let what the next one needs be pulled meanwhile."""
        pulled = None if self._ahead is None else self._ahead.take(batch)
        if pulled is None:
            pulled = self._pull(batch, sequence=sequence)
        self._flat.set_values(pulled.dense_P)  # before the next pull writes into it
        if self._ahead is not None:
            self._ahead.begin(sequence=sequence + 1)
        return pulled

    def _pull(self, batch: Batch, *, sequence: int) -> Pulled:
        """Get the rows of a batch and the dense network; sequence 0 only reads."""
        training = sequence > 0
        labels_B = None
        if training and self._counts_clicks:
            labels_B = batch.label(self._model.tasks[0].label)
        interval = self._dense_interval
        is_due = sequence == 0 or sequence % interval == 1 % interval
        dense_P = np.zeros(0, np.float32)

        def fetch(listed: Mapping[str, UniqueIds], *, training: bool) -> Mapping[str, Rows]:
            nonlocal dense_P
            assert training == (sequence > 0)
            ids = {name: its.ids_N for name, its in listed.items()}
            rows, dense_P = self._link.pull(ids, sequence=sequence, wants_dense=is_due)
            return rows

        fetched = self._lookup.prepare(batch, fetch, training=training, labels_B=labels_B)
        return Pulled(fetched=fetched, dense_P=dense_P)

    def _settle(self) -> None:
        """Wait until the servers have all steps, and nothing is asked of them."""
        if self._ahead is not None:
            self._ahead.drop()
        self._sender.flush()

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
