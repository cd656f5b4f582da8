"""One process does everything."""

import math
from collections.abc import Collection, Iterator, Mapping

import torch
from torch import Tensor

from fleetrec.checkpoint.staging import Staging
from fleetrec.config.job import OptimizerOptions, UpdateOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.errors import CheckpointError
from fleetrec.core.event_time import event_time_of
from fleetrec.embedding.gradient_norm import row_gradient_squares
from fleetrec.embedding.lookup import LookedUp, Lookup
from fleetrec.embedding.native_store import ALL_BUCKETS, NativeStore
from fleetrec.embedding.record import StoredTable, WrittenTable
from fleetrec.embedding.table import RowOptimizer, TableConfig
from fleetrec.models.base import Model
from fleetrec.optim.dense import DenseOptimizer, follows_steps, row_rate
from fleetrec.optim.schedule import learning_rate
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.saved import dense_weights, table_of
from fleetrec.parallel.strategy import STEP, SavedPhase, State, Step
from fleetrec.parallel.transfer import transfer_to
from fleetrec.tasks.task import Outputs

ONE_OPTIMIZER = UpdateOptions()


class SingleStrategy:
    """Looks up, computes, learns and applies in this process."""

    def __init__(
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        update: UpdateOptions = ONE_OPTIMIZER,
        device: torch.device,
        seed: int,
        frozen: Collection[str] = (),
    ) -> None:
        collection = model.embedding_collection()
        self._model = model.to(device)
        self._device = device
        self._transfer = transfer_to(device)
        self._update = update
        self._optimizers = update.optimizers or (optimizer,)
        self._step = 0
        self._collection = collection
        self._tables = collection.tables
        self._counts_clicks = any(table.counts_clicks for table in collection.tables.values())
        self._stores = {
            name: NativeStore(
                table, self._row_optimizer(name), seed=seed, buckets=self._buckets(table)
            )
            for name, table in collection.tables.items()
        }
        self._frozen = freeze(model, collection.tables, frozen)
        self._lookup = Lookup(collection, self._stores, frozen=self._frozen)
        self._parameters = dict(model.named_parameters())
        self._optimizer = DenseOptimizer(
            [
                (options, [p for n, p in self._parameters.items() if self._number_of(n) == number])
                for number, options in enumerate(self._optimizers)
            ]
        )

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that loads and saves: there is no other."""
        return True

    def keep(self, progress: bytes) -> None:
        """Keep nothing: what this process knows ends with it."""

    def recall(self) -> bytes:
        """Return nothing."""
        return b""

    @property
    def num_passes_before(self) -> int:
        """How many passes others had made: there are none."""
        return 0

    def gather(self, name: str, content: bytes, *, number: int) -> list[bytes]:  # noqa: ARG002
        """Meet nobody."""
        return [content]

    def together(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:  # noqa: ARG002
        """Yield the batches: nobody else has any."""
        return batches

    def agrees(self, wish: bool) -> bool:  # noqa: FBT001
        """Tell whether it is wished: nobody else is asked."""
        return wish

    def standings(self) -> list[bytes]:
        """Return nothing."""
        return []

    def num_waiting(self) -> int:
        """Return 0: a step counts at once."""
        return 0

    @property
    def looks_ahead(self) -> bool:
        """Whether to be told which batch comes next: its rows are here already."""
        return False

    def expect(self, batch: Batch) -> None:
        """Prepare nothing."""

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch."""
        if not self._model.training:  # or every module would be told in every step
            self._model.train()
        looked_up = self._pull(batch)
        sent = self._transfer.send(batch, looked_up.vectors)
        outputs, loss = self._forward_backward(sent)
        self._transfer.bring_back(sent, looked_up.vectors)
        self._prepare_gradients(batch, looked_up)
        rates = [learning_rate(options, self._step) for options in self._optimizers]
        self._optimizer.step(rates)
        self._push(looked_up)
        self._step += 1
        detached = {name: value.detach() for name, value in outputs.items()}
        return Step(outputs=detached, loss=loss.detach(), lr=rates[-1])

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Step:
        """Return the outputs of the model in evaluation, and their loss."""
        self._model.eval()
        sent = self._transfer.send(batch, self._look(batch).vectors)
        outputs = self._model(sent)
        return Step(outputs=outputs, loss=self._model.loss(outputs, sent))

    def end_pass(self, *, epoch: int) -> None:
        """Give up rows by the rules of their tables."""
        for store in self._stores.values():
            store.evict(now=event_time_of(epoch))

    def table_stats(self) -> dict[str, dict[str, int]]:
        """Return rows, candidates, bytes, created and evicted of every growing table."""
        growing = [name for name, table in self._tables.items() if table.num_rows is None]
        return {name: self._stores[name].table.stats() for name in growing}

    def state(self) -> State:
        """Return weights and optimizer state."""
        state: dict[str, Mapping[str, Tensor]] = {"model": dict(self._model.state_dict())}
        kept = {
            f"{name}/{key}": value
            for name, parameter in self._parameters.items()
            for key, value in self._optimizer.state_of(parameter).items()
        }
        if any(follows_steps(options) for options in self._optimizers):
            kept[STEP] = torch.tensor(self._step)
        if self._parameters or kept:
            state["optimizer"] = kept
        return state

    @property
    def stores(self) -> Mapping[str, NativeStore]:
        """Return where the rows are, by table."""
        return self._stores

    def write_tables(
        self, staging: Staging, folder: str, *, parent: str | None
    ) -> dict[str, WrittenTable]:
        """Write every table, one after the other; each uses all threads."""
        with staging.folder(folder) as directory:
            return {
                name: store.write(directory / name, parent=parent)
                for name, store in self._stores.items()
            }

    def load_tables(self, tables: Mapping[str, StoredTable]) -> None:
        """Take up tables exactly; after an error they are empty."""
        try:
            for name, store in self._stores.items():
                store.load(table_of(tables, name))
        except CheckpointError:
            self.clear_tables()
            raise

    def clear_tables(self) -> None:
        """Forget all rows."""
        for store in self._stores.values():
            store.clear()

    def load_state(self, state: State) -> None:
        """Take up weights and optimizer state exactly."""
        self._load_dense(state)
        slots = dict(state.get("optimizer", {}))
        self._step = int(slots.pop(STEP, torch.tensor(0)))
        self._optimizer.clear_state()
        for name, value in slots.items():
            parameter_name, _, key = name.rpartition("/")
            parameter = self._parameters[parameter_name]
            on_device = value.clone() if key == "step" else value.to(self._device, copy=True)
            self._optimizer.load_state_of(parameter, key, on_device)

    def load_weights(self, saved: SavedPhase) -> None:
        """Take up model weights and rows, which must fit; optimizers begin anew."""
        self._load_dense(saved.tensors)
        for name, store in self._stores.items():
            store.load_rows(table_of(saved.tables, name))

    def variables(self) -> list[str]:
        """Return the names under which parameters and tables are loaded or frozen."""
        return [*self._model.state_dict(), *self._stores]

    def load_variables(self, saved: SavedPhase, names: Collection[str]) -> list[str]:
        """Take up the named variables that the checkpoint has; returns those that were loaded."""
        own = self._model.state_dict()
        given = saved.tensors.get("model", {})
        fit = [n for n in names if n in own and n in given and own[n].shape == given[n].shape]
        self._model.load_state_dict({**own, **{name: given[name] for name in fit}})
        tables = [name for name in names if self._fits(name, saved.tables)]
        for name in tables:
            self._stores[name].load_rows(saved.tables[name])
        return [*fit, *tables]

    def frozen_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table, for an inference model."""
        frozen = {}
        for name, store in self._stores.items():
            taken = store.snapshot()
            frozen[name] = {column: taken[column] for column in ("ids", "rows")}
        return frozen

    def finish(self) -> None:
        """Tell nobody."""

    def close(self) -> None:
        """Let go of nobody."""

    def _buckets(self, table: TableConfig) -> tuple[int, int]:  # noqa: ARG002
        """Return which rows of a table this process holds: all."""
        return ALL_BUCKETS

    def _pull(self, batch: Batch) -> LookedUp:
        """Look up the vectors of a batch to learn from."""
        return self._lookup.pull(batch, training=True, labels_B=self._clicks(batch))

    def _look(self, batch: Batch) -> LookedUp:
        """Look up the vectors of a batch, which nothing comes of."""
        return self._lookup.pull(batch, training=False)

    def _push(self, looked_up: LookedUp) -> None:
        """Let the rows learn."""
        self._lookup.push(looked_up, lr=self._row_rates())

    def _forward_backward(self, batch: Batch) -> tuple[Outputs, Tensor]:
        """Compute outputs, loss and gradients."""
        outputs = self._model(batch)
        loss = self._model.loss(outputs, batch)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return outputs, loss

    def _clicks(self, batch: Batch) -> Tensor | None:
        return batch.label(self._model.tasks[0].label) if self._counts_clicks else None

    def _number_of(self, variable: str) -> int:
        """Return the number of the optimizer of a parameter or a table."""
        count = len(self._optimizers)
        return self._model.optimizer_of(variable, num_optimizers=count) if count > 1 else 0

    def _row_optimizer(self, table: str) -> RowOptimizer:
        options = self._optimizers[self._number_of(table)]
        return self._tables[table].row_optimizer(options.name, options.settings)

    def _row_rates(self) -> dict[str, float]:
        rates: dict[str, float] = {}
        for key, group in self._collection.groups.items():
            name = group.features[0].table
            options = self._optimizers[self._number_of(name)]
            rates[key] = self._tables[name].row_rate(row_rate(options, self._step))
        return rates

    def _prepare_gradients(self, batch: Batch, looked_up: LookedUp) -> None:
        """Scale the gradient of rows, then cut all gradients to the norm that is allowed."""
        update = self._update
        grads = [vector.grad for vector in looked_up.vectors.values() if vector.grad is not None]
        if update.embedding_gradient_scale != 1:
            for grad in grads:
                grad.mul_(update.embedding_gradient_scale)
        if update.clip_norm == 0:
            return
        dense = [p.grad for p in self._parameters.values() if p.grad is not None]
        squares = sum(float(grad.square().sum()) for grad in dense)
        squares += row_gradient_squares(self._collection, batch.ids, looked_up.vectors)
        scale = update.clip_norm / max(math.sqrt(squares), update.clip_norm)
        for grad in (*dense, *grads):
            grad.mul_(scale)

    def _load_dense(self, state: State) -> None:
        try:
            self._model.load_state_dict(dict(dense_weights(state)))
        except RuntimeError as error:
            raise CheckpointError(f"the checkpoint does not fit the model: {error}") from error

    def _fits(self, table: str, tables: Mapping[str, StoredTable]) -> bool:
        if table not in self._stores or table not in tables:
            return False
        return tables[table].record.identity.dim == self._tables[table].dim
