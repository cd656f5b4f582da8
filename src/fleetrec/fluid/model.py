"""The model that a program has recorded."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from fleetrec.core.batch import Batch
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.embedding.collection import Embedded, EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.fluid.graph import AucResult, Call, Feature, Lookup, Operation, Program, Variable
from fleetrec.fluid.initializer import first_values
from fleetrec.fluid.tasks import AucTask, ScalarTask
from fleetrec.models import base
from fleetrec.tasks.task import Outputs, Task


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Which variables of a program a model computes, and where.

    ``outputs`` need no labels; the loss and the metrics are computed from them.
    """

    outputs: tuple[Variable, ...]
    loss: Variable
    aucs: tuple[Variable, ...]
    scalars: tuple[Variable, ...]

    @property
    def all(self) -> tuple[Variable, ...]:
        """Return all variables that are computed, with those that they are computed from."""
        return tuple(ancestors((*self.outputs, self.loss, *self.aucs, *self.scalars)))


def ancestors(variables: Iterable[Variable]) -> dict[Variable, None]:
    """Return variables and all that they are computed from, each once."""
    found: dict[Variable, None] = {}
    waiting = list(variables)
    while waiting:
        variable = waiting.pop()
        if variable not in found:
            found[variable] = None
            waiting += variable.parents
    return found


def parts_of(program: Program, loss: Variable) -> Parts:
    """Split what a program has recorded into outputs, loss and metrics."""
    variables = tuple(program.variables.values())
    metrics = [v for v in variables if isinstance(v.source, AucResult)]
    labels = _labels(variables)
    dependent: dict[Variable, None] = {}
    for variable in variables:  # in the order of recording: parents first
        if variable in labels or any(parent in dependent for parent in variable.parents):
            dependent[variable] = None
    used = {parent for variable in variables for parent in variable.parents}
    needed = {p for variable in dependent for p in variable.parents} | {
        variable for variable in variables if variable not in used
    }
    return Parts(
        outputs=tuple(
            variable
            for variable in variables
            if variable in needed
            and variable not in dependent
            and isinstance(variable.source, Operation)
            and variable.is_per_sample
        ),
        loss=loss,
        aucs=tuple(v for v in metrics if not _key(v).startswith("BATCH_")),
        scalars=tuple(
            v
            for v in variables
            if v.shape == (1,) and isinstance(v.source, Operation) and v.parents
        ),
    )


class GraphModel(base.Model):
    """Computes the variables of a program; its tables and weights are those of the program."""

    def __init__(self, program: Program, *, loss: Variable, seed: int) -> None:
        self._parts = parts_of(program, loss)
        super().__init__(tasks=self._new_tasks())
        computed = self._parts.all
        lookups = [v for v in computed if isinstance(v.source, Lookup) and not _is_only_listed(v)]
        self._names = dict(_lookup_names(lookups))
        self.embeddings = EmbeddingCollection(
            features=[_embedded(v, self._names[v]) for v in lookups],
            tables=_tables(program, lookups),
        )
        operations = [v.source for v in computed if isinstance(v.source, Operation)]
        self.weights = nn.ParameterDict(_weights(program, operations, seed))
        self.modules_of_layers = nn.ModuleDict(
            {_key_of(name): program.modules[name]() for o in operations if (name := o.module)}
        )
        trained = {
            _key_of(name)
            for v in ancestors([loss])
            if isinstance(v.source, Operation)
            for name in v.source.weights
        }
        for key, weight in self.weights.items():
            weight.requires_grad_(key in trained)

    @property
    def needed_features(self) -> tuple[str, ...]:
        """Return the names of the inputs that the data must have."""
        return tuple(v.name for v in self._parts.all if isinstance(v.source, Feature))

    @property
    def fetchable(self) -> dict[Variable, str]:
        """Return the metric of every variable that can be fetched."""
        aucs = {
            v: v.source.key
            for v in self._parts.loss.program.variables.values()
            if isinstance(v.source, AucResult)
        }
        return aucs | {v: v.name for v in self._parts.scalars}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the variables that need no labels."""
        values = _Values(self, batch, {})
        return {variable.name: values.of(variable) for variable in self._parts.outputs}

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss that is minimised."""
        return self.value_of(self._parts.loss, outputs, batch).reshape(())

    def value_of(self, variable: Variable, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the value of a variable, computed from the outputs where possible."""
        known = {v: outputs[v.name] for v in self._parts.outputs if v.name in outputs}
        return _Values(self, batch, known).of(variable)

    def lookup_name(self, variable: Variable) -> str:
        """Return the name of the vectors of a lookup."""
        return self._names[variable]

    def _new_tasks(self) -> list[Task]:
        tasks: list[Task] = []
        for variable in self._parts.aucs:
            source = variable.source
            assert isinstance(source, AucResult)
            tasks.append(
                AucTask(
                    self.value_of,
                    predictions=source.predictions,
                    label=source.label,
                    name=source.key.removeprefix("AUC").removeprefix("_"),
                )
            )
        return tasks + [ScalarTask(self.value_of, variable) for variable in self._parts.scalars]


class _Values:
    """The values of one batch, each computed once."""

    def __init__(self, model: GraphModel, batch: Batch, known: Mapping[Variable, Tensor]) -> None:
        self._model = model
        self._batch = batch
        self._known = dict(known)
        self._embedded: Embedded | None = None

    def of(self, variable: Variable) -> Tensor:
        if variable not in self._known:
            self._known[variable] = self._compute(variable)
        return self._known[variable]

    def _compute(self, variable: Variable) -> Tensor:
        match variable.source:
            case Feature():
                return _feature(self._batch, variable)
            case Lookup():
                return self._rows(variable, variable.source)
            case Operation():
                return self._result(variable.source)
            case AucResult():
                raise ConfigError([f"{variable.name} is a metric"])

    def _result(self, operation: Operation) -> Tensor:
        model = self._model
        call = Call(
            inputs=[self.of(parent) for parent in operation.inputs],
            weights=[model.weights[_key_of(name)] for name in operation.weights],
            module=model.modules_of_layers[_key_of(operation.module)] if operation.module else None,
            is_training=model.training,
        )
        return operation.compute(call)

    def _rows(self, variable: Variable, lookup: Lookup) -> Tensor:
        if self._embedded is None:
            self._embedded = self._model.embeddings(self._batch)
        name = self._model.lookup_name(variable)
        if lookup.combiner != "none":
            return self._embedded.pooled(name)
        sequence = self._embedded.sequence(name)
        if lookup.pick:
            return _picked(sequence.x_BLD, sequence.lengths_B, sequence.mask_BL, lookup.pick)
        if bool((sequence.lengths_B != lookup.length).any()):
            raise DataError(f"{lookup.feature.name}: expected {lookup.length} ids in every sample")
        return sequence.x_BLD


def _picked(x_BLD: Tensor, lengths_B: Tensor, mask_BL: Tensor, pick: str) -> Tensor:
    if pick == "first":
        return x_BLD[:, 0]
    if pick == "last":
        last_B = (lengths_B - 1).clamp(min=0)
        return x_BLD[torch.arange(len(x_BLD), device=x_BLD.device), last_B]
    low = torch.finfo(x_BLD.dtype).min
    largest_BD = x_BLD.masked_fill(~mask_BL.unsqueeze(2), low).amax(dim=1)
    return largest_BD.masked_fill((lengths_B == 0).unsqueeze(1), 0.0)


def _feature(batch: Batch, variable: Variable) -> Tensor:
    sizes = variable.shape[1:]
    source = variable.source
    assert isinstance(source, Feature)
    if not source.is_sparse:
        return batch.dense[variable.name].reshape(batch.num_samples, *sizes)
    jagged = batch.ids[variable.name]
    count = 1
    for size in sizes:
        count *= size
    if bool((jagged.lengths() != count).any()):
        raise DataError(f"{variable.name}: expected {count} integers in every sample")
    return jagged.values.reshape(batch.num_samples, *sizes)


def _labels(variables: Iterable[Variable]) -> set[Variable]:
    """Return the inputs that predictions are compared with."""
    compared = [
        label
        for v in variables
        for label in (
            v.source.labels
            if isinstance(v.source, Operation)
            else (v.source.label,)
            if isinstance(v.source, AucResult)
            else ()
        )
    ]
    return {v for v in ancestors(compared) if isinstance(v.source, Feature)}


def _is_only_listed(variable: Variable) -> bool:
    """Return whether a lookup of a list is only an argument of a pooling, which looks up itself."""
    return bool(variable.lod_level)


def _lookup_names(lookups: Iterable[Variable]) -> Iterator[tuple[Variable, str]]:
    taken: set[str] = set()
    for variable in lookups:
        assert isinstance(variable.source, Lookup)
        feature = variable.source.feature.name
        name = feature if feature not in taken else f"{feature}_{variable.name.split('.')[0]}"
        taken.add(name)
        yield variable, name


def _embedded(variable: Variable, name: str) -> EmbeddedFeature:
    source = variable.source
    assert isinstance(source, Lookup)
    return EmbeddedFeature(
        feature=source.feature.name, table=source.table, combiner=source.combiner, name=name
    )


def _tables(program: Program, lookups: Iterable[Variable]) -> list[TableConfig]:
    used = {v.source.table for v in lookups if isinstance(v.source, Lookup)}
    return [
        TableConfig(
            name=name,
            dim=table.dim,
            num_rows=table.num_rows,
            initializer=table.initial.spread((table.num_rows, table.dim)),
        )
        for name, table in program.tables.items()
        if name in used
    ]


def _weights(
    program: Program, operations: Iterable[Operation], seed: int
) -> dict[str, nn.Parameter]:
    used = {name for operation in operations for name in operation.weights}
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, nn.Parameter] = {}
    for name, weight in program.weights.items():
        if name in used:
            key = _key_of(name)
            if key in weights:
                raise ConfigError([f"parameter {name}: its name is too similar to another one"])
            weights[key] = nn.Parameter(first_values(weight.initial, weight.shape, generator))
    return weights


def _key(variable: Variable) -> str:
    assert isinstance(variable.source, AucResult)
    return variable.source.key


def _key_of(name: str) -> str:
    """Return the name of a weight in a module of torch, which has no dots."""
    return name.replace(".", "_")
