"""What layers record: variables, the operations behind them, and programs that hold them."""

# Every variable has two examples without memory, for batches of two and of three samples: shapes
# and dtypes follow from them, and the sizes that differ are those of the batch.

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fleetrec.core.errors import ConfigError
from fleetrec.embedding.collection import Combiner
from fleetrec.fluid.initializer import Initial
from fleetrec.fluid.missing import missing

BATCH_SIZES = (2, 3)  # of the examples

Examples = tuple[Tensor, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of one execution of an operation."""

    inputs: Sequence[Tensor]
    weights: Sequence[Tensor] = ()
    module: nn.Module | None = None
    is_training: bool = True


Compute = Callable[[Call], Tensor]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The variable is an input: numbers, one id per sample, or a list of ids."""

    is_sparse: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The variable has the rows of the ids of a feature, pooled unless the combiner is none."""

    feature: "Variable"
    table: str
    combiner: Combiner
    pick: str = ""  # of a sequence: max, first or last; empty: the whole sequence
    length: int = 0  # of the whole sequence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The variable is computed from others and from weights."""

    inputs: tuple["Variable", ...]
    compute: Compute
    weights: tuple[str, ...] = ()
    module: str = ""
    labels: tuple["Variable", ...] = ()  # those of the inputs that are compared with a prediction


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AucResult:
    """The variable is an AUC of the data seen so far; ``key`` is that of its metric."""

    predictions: "Variable"
    label: "Variable"
    key: str


Source = Feature | Lookup | Operation | AucResult


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Variable:
    """A value of a program. Sizes of -1 are those of the batch."""

    name: str
    program: "Program" = dataclasses.field(repr=False)
    source: Source = dataclasses.field(repr=False)
    examples: Examples = dataclasses.field(repr=False)
    lod_level: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes."""
        first, second = (tuple(example.shape) for example in self.examples)
        return tuple(a if a == b else -1 for a, b in zip(first, second, strict=True))

    @property
    def dtype(self) -> str:
        """Return the name of the dtype."""
        return str(self.examples[0].dtype).removeprefix("torch.")

    @property
    def is_per_sample(self) -> bool:
        """Whether the first size is the number of samples."""
        return all(
            example.dim() > 0 and example.shape[0] == size
            for example, size in zip(self.examples, BATCH_SIZES, strict=True)
        )

    @property
    def parents(self) -> tuple["Variable", ...]:
        """Return the variables that this one is computed from."""
        match self.source:
            case Feature():
                return ()
            case Lookup():
                return (self.source.feature,)
            case Operation():
                return self.source.inputs
            case AucResult():
                return (self.source.predictions, self.source.label)

    def __getattr__(self, name: str) -> Any:
        return missing("Variable", ("name", "shape", "dtype", "lod_level"))(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Variable":
        """Return the variable itself: it is a description that never changes."""
        del memo
        return self

    def __add__(self, other: "Variable | float") -> "Variable":
        """Return the sum."""
        return combine("elementwise_add", torch.add, self, other)

    def __radd__(self, other: float) -> "Variable":
        """Return the sum."""
        return combine("elementwise_add", torch.add, other, self)

    def __sub__(self, other: "Variable | float") -> "Variable":
        """Return the difference."""
        return combine("elementwise_sub", torch.sub, self, other)

    def __rsub__(self, other: float) -> "Variable":
        """Return the difference."""
        return combine("elementwise_sub", torch.sub, other, self)

    def __mul__(self, other: "Variable | float") -> "Variable":
        """Return the product."""
        return combine("elementwise_mul", torch.mul, self, other)

    def __rmul__(self, other: float) -> "Variable":
        """Return the product."""
        return combine("elementwise_mul", torch.mul, other, self)

    def __truediv__(self, other: "Variable | float") -> "Variable":
        """Return the quotient."""
        return combine("elementwise_div", torch.true_divide, self, other)

    def __rtruediv__(self, other: float) -> "Variable":
        """Return the quotient."""
        return combine("elementwise_div", torch.true_divide, other, self)

    def __neg__(self) -> "Variable":
        """Return the negative."""
        return combine("scale", torch.mul, self, -1.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A parameter of the dense network."""

    shape: tuple[int, ...]
    initial: Initial


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of rows."""

    num_rows: int
    dim: int
    initial: Initial
    is_sparse: bool


class Program:
    """What layers record, in the order of the calls."""

    def __init__(self) -> None:
        self.random_seed = 0
        self.variables: dict[str, Variable] = {}
        self.weights: dict[str, Weight] = {}
        self.tables: dict[str, Table] = {}
        self.modules: dict[str, Callable[[], nn.Module]] = {}
        self.is_complete = False  # its model was built
        self._counts: dict[str, int] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Program":
        """Return the program itself, which a copied model describes too."""
        del memo
        return self

    def __getattr__(self, name: str) -> Any:
        return missing("Program", ("random_seed",))(name)

    def unique(self, kind: str) -> str:
        """Return a new name: the kind and a number."""
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        return f"{kind}_{number}"

    def add(self, name: str, source: Source, examples: Examples, *, lod_level: int = 0) -> Variable:
        """Record a variable."""
        if self.is_complete:
            raise ConfigError(
                [f"{name}: the model is built already; call all layers before the program trains"]
            )
        if name in self.variables:
            raise ConfigError([f"{name}: a variable has this name already"])
        variable = Variable(
            name=name, program=self, source=source, examples=examples, lod_level=lod_level
        )
        self.variables[name] = variable
        return variable

    def add_weight(self, name: str, weight: Weight) -> str:
        """Record a weight, or share the one that has the name; returns the name."""
        known = self.weights.setdefault(name, weight)
        if known.shape != weight.shape:
            raise ConfigError(
                [f"parameter {name}: has shape {list(known.shape)}, not {list(weight.shape)}"]
            )
        return name

    def add_table(self, name: str, table: Table) -> str:
        """Record a table, or share the one that has the name; returns the name."""
        known = self.tables.setdefault(name, table)
        if (known.num_rows, known.dim) != (table.num_rows, table.dim):
            raise ConfigError(
                [
                    f"table {name}: has size {[known.num_rows, known.dim]}, "
                    f"not {[table.num_rows, table.dim]}"
                ]
            )
        return name


def record(  # noqa: PLR0913 (the parts of an operation)
    kind: str,
    inputs: Sequence[Variable],
    compute: Compute,
    *,
    weights: Sequence[str] = (),
    module: str = "",
    labels: Sequence[Variable] = (),
    name: str | None = None,
    program: Program | None = None,
) -> Variable:
    """Record an operation in the program of its inputs; its shape is computed at once."""
    check_values(kind, inputs)
    program = program or inputs[0].program
    found: list[Tensor] = []
    for index in range(len(BATCH_SIZES)):
        call = Call(
            inputs=[variable.examples[index] for variable in inputs],
            weights=[torch.empty(program.weights[w].shape, device="meta") for w in weights],
            module=program.modules[module]().to("meta") if module else None,
        )
        found.append(_shape_of(kind, compute, call, inputs))
    source = Operation(
        inputs=tuple(inputs),
        compute=compute,
        weights=tuple(weights),
        module=module,
        labels=tuple(labels),
    )
    return program.add(f"{name or program.unique(kind)}.tmp_0", source, tuple(found))


def check_values(kind: str, inputs: Sequence[Variable]) -> None:
    """Raise an error for inputs that are no variables of one program, or are lists."""
    where = f"fluid.layers.{kind}"
    for variable in inputs:
        if not isinstance(variable, Variable):
            raise ConfigError(
                [f"{where}: expected a variable, got a {type(variable).__name__}: {variable!r}"]
            )
        if variable.program is not inputs[0].program:
            raise ConfigError([f"{where}: {variable.name} is a variable of another program"])
        if variable.lod_level:
            what = (
                "a list of ids; look it up with fluid.layers.embedding"
                if isinstance(variable.source, Feature)
                else "a sequence; pool it with fluid.layers.sequence_pool"
            )
            raise ConfigError([f"{where}: {variable.name} is {what}"])
        if isinstance(variable.source, AucResult):
            raise ConfigError([f"{where}: {variable.name} is a metric, which only can be fetched"])


def combine(
    kind: str,
    fn: Callable[[Any, Any], Tensor],
    x: "Variable | float",
    y: "Variable | float",
    *,
    name: str | None = None,
) -> Variable:
    """Record an operation of a variable with another or with a number."""
    if isinstance(x, Variable) and isinstance(y, int | float):
        number = y
        return record(kind, [x], lambda call: fn(call.inputs[0], number), name=name)
    if isinstance(y, Variable) and isinstance(x, int | float):
        scalar = x  # functions of torch want a tensor first
        return record(
            kind,
            [y],
            lambda call: fn(torch.full_like(call.inputs[0], scalar), call.inputs[0]),
            name=name,
        )
    return record(kind, [x, y], lambda call: fn(*call.inputs), name=name)  # type: ignore[list-item]


def _shape_of(kind: str, compute: Compute, call: Call, inputs: Sequence[Variable]) -> Tensor:
    try:
        return compute(call)
    except (RuntimeError, IndexError, ValueError) as error:
        shapes = ", ".join(f"{variable.name} {list(variable.shape)}" for variable in inputs)
        first = str(error).splitlines()[0]
        raise ConfigError(
            [f"fluid.layers.{kind}: does not fit the shapes {shapes}: {first}"]
        ) from error
