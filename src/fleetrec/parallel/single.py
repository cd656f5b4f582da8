"""One process does everything."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.embedding.lookup import LookedUp, Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer
from fleetrec.models.base import Model
from fleetrec.optim.dense import dense_optimizer
from fleetrec.parallel.strategy import State, Step


class SingleStrategy:
    """Looks up, computes, learns and applies in this process."""

    def __init__(
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        device: torch.device,
        seed: int,
        frozen: Collection[str] = (),
    ) -> None:
        collection = model.embedding_collection()
        self._model = model.to(device)
        self._device = device
        self._lr = optimizer.lr
        self._tables = collection.tables
        self._counts_clicks = any(table.counts_clicks for table in collection.tables.values())
        self._stores = {
            name: NativeStore(table, RowOptimizer(name=optimizer.name), seed=seed)
            for name, table in collection.tables.items()
        }
        self._lookup = Lookup(collection, self._stores, frozen=self._freeze(frozen))
        self._parameters = dict(model.named_parameters())
        trained = [p for p in self._parameters.values() if p.requires_grad]
        self._optimizer = dense_optimizer(trained, optimizer) if trained else None

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch."""
        self._model.train()
        labels_B = batch.label(self._model.tasks[0].label) if self._counts_clicks else None
        looked_up = self._lookup.pull(batch, training=True, labels_B=labels_B)
        batch = self._on_device(batch, looked_up)
        outputs = self._model(batch)
        loss = self._model.loss(outputs, batch)
        if self._optimizer is not None:
            self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._optimizer is not None:
            self._optimizer.step()
        self._lookup.push(looked_up, lr=self._lr)
        detached = {name: value.detach() for name, value in outputs.items()}
        return Step(outputs=detached, loss=loss.detach())

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Step:
        """Return the outputs of the model in evaluation, and their loss."""
        self._model.eval()
        batch = self._on_device(batch, self._lookup.pull(batch, training=False))
        outputs = self._model(batch)
        return Step(outputs=outputs, loss=self._model.loss(outputs, batch))

    def end_pass(self, *, event_time: int) -> None:
        """Give up rows by the rules of their tables."""
        for store in self._stores.values():
            store.evict(now=event_time)

    def table_stats(self) -> dict[str, dict[str, int]]:
        """Return rows, candidates, bytes, created and evicted of every growing table."""
        growing = [name for name, table in self._tables.items() if table.num_rows is None]
        return {name: self._stores[name].table.stats() for name in growing}

    def state(self) -> State:
        """Return weights, optimizer state and tables."""
        state: dict[str, Mapping[str, Tensor]] = {"model": dict(self._model.state_dict())}
        if self._optimizer is not None:
            slots = self._optimizer.state
            state["optimizer"] = {
                f"{name}/{key}": value
                for name, parameter in self._parameters.items()
                for key, value in slots.get(parameter, {}).items()
            }
        for name, store in self._stores.items():
            state[f"tables/{name}"] = store.snapshot()
        return state

    def load_state(self, state: State) -> None:
        """Take up weights, optimizer state and tables exactly."""
        self._load_dense(state)
        for name, store in self._stores.items():
            store.restore(_table_of(state, name))
        if self._optimizer is None:
            return
        self._optimizer.state.clear()
        for name, value in state["optimizer"].items():
            parameter_name, _, key = name.rpartition("/")
            parameter = self._parameters[parameter_name]
            on_device = value.clone() if key == "step" else value.to(self._device, copy=True)
            self._optimizer.state[parameter][key] = on_device

    def load_weights(self, state: State) -> None:
        """Take up model weights and rows, which must fit; optimizers begin anew."""
        self._load_dense(state)
        for name, store in self._stores.items():
            store.restore(_rows_of(_table_of(state, name)))

    def variables(self) -> list[str]:
        """Return the names under which parameters and tables are loaded or frozen."""
        return [*self._model.state_dict(), *self._stores]

    def load_variables(self, state: State, names: Collection[str]) -> list[str]:
        """Take up the named variables that the checkpoint has; returns those that were loaded."""
        own = self._model.state_dict()
        given = state.get("model", {})
        fit = [n for n in names if n in own and n in given and own[n].shape == given[n].shape]
        self._model.load_state_dict({**own, **{name: given[name] for name in fit}})
        tables = [name for name in names if self._fits(name, state)]
        for name in tables:
            self._stores[name].restore(_rows_of(_table_of(state, name)))
        return [*fit, *tables]

    def _load_dense(self, state: State) -> None:
        try:
            self._model.load_state_dict(dict(state["model"]))
        except (RuntimeError, KeyError) as error:
            raise CheckpointError(f"the checkpoint does not fit the model: {error}") from error

    def _fits(self, table: str, state: State) -> bool:
        if table not in self._stores or f"tables/{table}" not in state:
            return False
        return state[f"tables/{table}"]["rows"].shape[1] == self._tables[table].dim

    def _on_device(self, batch: Batch, looked_up: LookedUp) -> Batch:
        if self._device.type == "cpu":
            return batch.with_embedded(looked_up.vectors)
        vectors = {name: vector.to(self._device) for name, vector in looked_up.vectors.items()}
        return batch.to(self._device).with_embedded(vectors)

    def _freeze(self, names: Collection[str]) -> frozenset[str]:
        parameters: dict[str, nn.Parameter] = dict(self._model.named_parameters())
        known = {*parameters, *self._stores}
        unknown = sorted(set(names) - known)
        if unknown:
            raise ConfigError(
                [
                    f"finetuning_aspect_varnames: the model has no {', '.join(unknown)}; "
                    f"known: {', '.join(sorted(known))}"
                ]
            )
        for name in set(names) & parameters.keys():
            parameters[name].requires_grad_(False)  # noqa: FBT003
        return frozenset(names) & self._stores.keys()


def _table_of(state: State, name: str) -> Mapping[str, Tensor]:
    if f"tables/{name}" not in state:
        raise CheckpointError(f"the checkpoint has no table {name!r}")
    return state[f"tables/{name}"]


def _rows_of(table: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: table[name] for name in ("ids", "rows")}
