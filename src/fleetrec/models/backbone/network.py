"""A network that a pipeline describes as a graph of blocks."""

# Shape suffixes: X width.

import dataclasses
import re
from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from fleetrec.config.pipeline_dialect.backbone import (
    Backbone,
    Block,
    EmbeddingLayer,
    Graph,
    Input,
    InputLayer,
    Layer,
    Recurrent,
    Repeat,
)
from fleetrec.config.pipeline_dialect.keras_layer import KerasLayer
from fleetrec.models.backbone.auxiliary import AuxiliaryLoss
from fleetrec.models.backbone.dense import stack_of
from fleetrec.models.backbone.functions import Function
from fleetrec.models.backbone.input_layers import GroupInput
from fleetrec.models.backbone.layers import build_layer
from fleetrec.models.backbone.number_table import NumberTable
from fleetrec.models.backbone.sources import ExampleSource, GroupSource
from fleetrec.models.backbone.values import Value, flat, matrix, merge
from fleetrec.models.group_model import LOSS
from fleetrec.models.groups import GroupEmbeddings

_PENDING = object()


class BackboneNetwork(nn.Module):
    """Blocks in the order of their inputs; only those that the outputs need are computed.

    Layers are built when example inputs of the right widths reach them for the first time, in
    ``__init__``. A package is computed again at each use, with the same layers.
    """

    def __init__(self, options: Backbone, inputs: GroupEmbeddings) -> None:
        super().__init__()
        self.options = options
        self._groups = [group for group in groups_of(options) if group in inputs]
        self.layers = nn.ModuleDict()
        self.top: nn.Module = nn.Identity()
        self.eval()
        run = self.start(ExampleSource(inputs))
        example = run.output()
        for block in auxiliary_blocks(options):
            run.block(block)
        if options.top_mlp is not None:
            self.top = stack_of(options.top_mlp, matrix(example).shape[-1])
        self.train()
        example_dims = [part.shape[-1] for part in example] if isinstance(example, list) else []
        self.out_dims = tuple(example_dims)
        top_dim = getattr(self.top, "out_dim", None)
        self.out_dim = top_dim or matrix(example).shape[-1] if not example_dims else 0

    def start(self, source: GroupSource) -> "Run":
        """Return a run over the vectors of one source."""
        return Run(network=self, source=source, graph=self.options, scope="")

    def forward(self, source: GroupSource) -> "Computed":
        """Return the output, the values of named blocks, and in training auxiliary losses."""
        run = self.start(source)
        value = run.output()
        if self.options.top_mlp is not None:
            value = self.top(matrix(value))
        if self.training:
            for block in auxiliary_blocks(self.options):
                run.block(block)
        named = {name: matrix(run.block(name)) for name in named_blocks(self.options)}
        return Computed(value=value, named=named, losses=run.losses)

    def layer(self, path: str) -> nn.Module | None:
        """Return the layer of a block, or None if it is not built yet."""
        name = re.sub(r"\W", "_", path)
        return dict(self.layers.items()).get(name)

    def add_layer(self, path: str, layer: nn.Module) -> nn.Module:
        """Add a layer."""
        layer.eval()
        self.layers[re.sub(r"\W", "_", path)] = layer
        return layer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computed:
    """What a backbone returns for a batch."""

    value: Value
    named: Mapping[str, Tensor]
    losses: Mapping[str, Tensor]

    def outputs(self) -> dict[str, Tensor]:
        """Return what is added to the outputs of a model; losses once per sample."""
        like_B = flat(self.value)[0].flatten(1)[:, 0]
        losses = {f"{LOSS}{name}": one.expand_as(like_B) for name, one in self.losses.items()}
        return {**self.named, **losses}


@dataclasses.dataclass(kw_only=True, eq=False)
class Run:
    """One computation of a graph, or of a package in it; each block is computed once."""

    network: BackboneNetwork
    source: GroupSource
    graph: Graph
    scope: str
    parent: "Run | None" = None
    package_input: Value = None
    reset: InputLayer | None = None
    losses: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    _values: dict[str, Value] = dataclasses.field(default_factory=dict)

    def output(self) -> Value:
        """Return ``output_blocks`` as a list, or ``concat_blocks`` concatenated."""
        if self.graph.output_blocks:
            found = [self.block(name) for name in self.graph.output_blocks]
            return found[0] if len(found) == 1 else found
        return merge([self.block(name) for name in output_names(self.graph)], axis=-1)

    def block(self, name: str) -> Value:
        """Return the value of a block."""
        if name not in self._values:
            block = next((one for one in self.graph.blocks if one.name == name), None)
            if block is None:
                return self._outside(name)
            self._values[name] = _PENDING
            try:
                self._values[name] = self._compute(block)
            except ValueError as error:
                self._values.pop(name)
                text = str(error)
                if text.startswith("backbone: "):
                    raise
                raise ValueError(f"backbone: block {self.scope}{name}: {text}") from error
        if self._values[name] is _PENDING:
            raise ValueError(f"backbone: block {self.scope}{name} depends on itself")
        return self._values[name]

    def _outside(self, name: str) -> Value:
        if self.parent is not None:
            return self.parent.block(name)
        return self._group(name)

    def _group(self, name: str, options: InputLayer | None = None) -> Value:
        chosen = options or InputLayer()
        key = f"input_{name}" if options is None else f"{self.scope}{options!r}"
        layer = self.network.layer(key)
        if layer is None:
            layer = self.network.add_layer(key, GroupInput(chosen, name, self.source))
        return layer(self.source, self.reset)

    def _compute(self, block: Block) -> Value:
        path = f"{self.scope}{block.name}"
        if block.is_source:
            return self._source_block(block, path)
        value = self._inputs(block)
        for number, layer in enumerate(block.layers):
            value = self._layer(layer, value, f"{path}_l{number}")
        if block.embedding_layer is not None:
            return self._table(block.embedding_layer, value, path)
        return self._layer(block, value, path)

    def _source_block(self, block: Block, path: str) -> Value:
        group = block.inputs[0].feature_group_name
        assert group is not None
        if block.raw_input is not None:
            return matrix(self.source.numbers(group))
        assert block.input_layer is not None
        layer = self.network.layer(path)
        if layer is None:
            layer = self.network.add_layer(path, GroupInput(block.input_layer, group, self.source))
        return layer(self.source, self.reset)

    def _inputs(self, block: Block) -> Value:
        values = []
        for one in block.inputs:
            value = self._input(one, reader=block.name)
            if one.ignore_input:
                continue
            if one.input_slice is not None:
                value = Function(one.input_slice, is_slice=True)(value)
            if one.input_fn is not None:
                value = Function(one.input_fn)(value)
            values.append(value)
        if not values:
            raise ValueError("every input has ignore_input: true")
        value = values if block.merge_inputs_into_list else merge(values, block.input_concat_axis)
        return value if block.extra_input_fn is None else Function(block.extra_input_fn)(value)

    def _input(self, one: Input, *, reader: str) -> Value:
        if one.package_name is not None:
            return self._package(one)
        if one.use_package_input:
            if self.package_input is None:
                raise ValueError("use_package_input is for a package with package_input")
            return self.package_input
        name = one.block_name or one.feature_group_name
        assert name is not None
        is_block = name != reader and any(block.name == name for block in self.graph.blocks)
        if one.feature_group_name is not None and not is_block:
            return self._cached_group(name)
        return self.block(name)

    def _cached_group(self, name: str) -> Value:
        key = f"group {name}"
        if key not in self._values:
            self._values[key] = self._group(name)
        return self._values[key]

    def _package(self, one: Input) -> Value:
        assert one.package_name is not None
        value = None
        if one.package_input is not None:
            names = [package.name for package in self.network.options.packages]
            value = (
                self._inner(one.package_input, value=None, reset=None).output()
                if one.package_input in names
                else self.block(one.package_input)
            )
            if one.package_input_fn is not None:
                value = Function(one.package_input_fn)(value)
        return self._inner(one.package_name, value=value, reset=one.reset_input).output()

    def _inner(self, name: str, *, value: Value, reset: InputLayer | None) -> "Run":
        if f"{name}/" in self.scope:
            raise ValueError(f"package {name} uses itself")
        (package,) = (one for one in self.network.options.packages if one.name == name)
        return Run(
            network=self.network,
            source=self.source,
            graph=package,
            scope=f"{self.scope}{name}/" if self.parent else f"{name}/",
            parent=self.parent or self,
            package_input=value,
            reset=reset,
            losses=self.losses,
        )

    def _layer(self, layer: Layer | Block, value: Value, path: str) -> Value:
        if layer.lambda_ is not None:
            return Function(layer.lambda_.expression)(value)
        if layer.keras_layer is not None:
            return self._keras(layer.keras_layer, value, path)
        if layer.repeat is not None:
            return self._repeat(layer.repeat, value, path)
        if layer.recurrent is not None:
            return self._recurrent(layer.recurrent, value, path)
        return value

    def _keras(self, layer: KerasLayer, value: Value, path: str) -> Value:
        module = self.network.layer(path)
        if module is None:
            module = self.network.add_layer(path, build_layer(layer, value))
        found = module(value)
        if isinstance(module, AuxiliaryLoss):
            name = f"{path}_{module.name}"
            self.losses[name if module.name.endswith("loss") else f"{name}_loss"] = found
        return found

    def _repeat(self, repeat: Repeat, value: Value, path: str) -> Value:
        found = []
        for number in range(repeat.num_repeat):
            one = value
            if repeat.input_slice is not None:
                one = Function(repeat.input_slice, is_slice=True)(one, number)
            if repeat.input_fn is not None:
                one = Function(repeat.input_fn)(one, number)
            found.append(self._keras(repeat.keras_layer, one, f"{path}_{number}"))
        if len(found) == 1:
            return found[0]
        return (
            found if repeat.output_concat_axis is None else merge(found, repeat.output_concat_axis)
        )

    def _recurrent(self, recurrent: Recurrent, value: Value, path: str) -> Value:
        fixed = recurrent.fixed_input_index
        if fixed is not None and (isinstance(value, Tensor) or fixed >= len(value)):
            raise ValueError("fixed_input_index needs a list of inputs, as of lambda x: [x, x]")
        output: Value = value
        for number in range(recurrent.num_steps):
            found = self._keras(recurrent.keras_layer, value, f"{path}_{number}")
            if fixed is None:
                value = output = found
                continue
            parts = found if isinstance(found, list) else [found] * (len(value) - 1)
            output = parts[0] if len(parts) == 1 else found
            rest = iter(parts)
            value = [one if place == fixed else next(rest) for place, one in enumerate(value)]
        return output

    def _table(self, options: EmbeddingLayer, value: Value, path: str) -> Value:
        module = self.network.layer(path)
        if module is None:
            module = self.network.add_layer(path, NumberTable(options, matrix(value).shape[1]))
        return module(matrix(value))


def output_names(graph: Graph) -> tuple[str, ...]:
    """Return the blocks that are the output of a graph; without any, those that none reads.

    A loss is no output.
    """
    found = graph.output_blocks or graph.concat_blocks
    if found:
        return found
    losses = [block.name for block in graph.blocks if _is_loss(block)]
    return tuple(name for name in graph.leaves() if name not in losses)


def auxiliary_blocks(options: Backbone) -> tuple[str, ...]:
    """Return the blocks that are losses."""
    return tuple(block.name for block in options.blocks if _is_loss(block))


def _is_loss(block: Block) -> bool:
    layers = (block.keras_layer, *(layer.keras_layer for layer in block.layers))
    return any(layer is not None and layer.class_name == "AuxiliaryLoss" for layer in layers)


def named_blocks(options: Backbone) -> tuple[str, ...]:
    """Return the blocks whose MLP has ``add_to_outputs``."""
    found = []
    for block in options.blocks:
        layers = (block.keras_layer, *(layer.keras_layer for layer in block.layers))
        messages = [layer.params() for layer in layers if layer is not None]
        if any(getattr(message, "add_to_outputs", False) for message in messages):
            found.append(block.name)
    return tuple(found)


def groups_of(options: Backbone) -> Iterator[str]:
    """Yield the names of inputs that may be groups."""
    for graph in (options, *options.packages):
        for block in graph.blocks:
            for one in block.inputs:
                yield from (name for name in (one.feature_group_name, one.block_name) if name)
