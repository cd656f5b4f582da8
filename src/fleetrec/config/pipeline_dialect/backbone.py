"""``backbone``: a network as a graph of blocks."""

from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fleetrec.config.pipeline_dialect.expression import parse_lambda, parse_slice
from fleetrec.config.pipeline_dialect.keras_layer import KerasLayer
from fleetrec.config.pipeline_dialect.layers import MlpMessage
from fleetrec.config.pipeline_dialect.message import Message, idle
from fleetrec.config.problems import hint


class WithFunctions(Message):
    """A message with functions, which are parsed when the pipeline is read."""

    @field_validator(
        "input_fn",
        "package_input_fn",
        "extra_input_fn",
        "expression",
        check_fields=False,
    )
    @classmethod
    def _check_function(cls, text: str | None) -> str | None:
        if text is not None:
            parse_lambda(text)
        return text

    @field_validator("input_slice", check_fields=False)
    @classmethod
    def _check_slice(cls, text: str | None) -> str | None:
        if text is not None:
            parse_slice(text)
        return text


class InputLayer(Message):
    """How the features of a group enter the network."""

    do_batch_norm: bool = False
    do_layer_norm: bool = False
    dropout_rate: float = Field(default=0.0, ge=0, lt=1)
    feature_dropout_rate: float = Field(default=0.0, ge=0, lt=1)
    only_output_feature_list: bool = False
    only_output_3d_tensor: bool = False
    output_2d_tensor_and_feature_list: bool = False
    output_seq_and_normal_feature: bool = False
    wide_output_dim: int | None = Field(default=None, gt=0)
    concat_seq_feature: bool = True

    @model_validator(mode="after")
    def _check_kinds(self) -> Self:
        kinds = (
            "only_output_feature_list",
            "only_output_3d_tensor",
            "output_2d_tensor_and_feature_list",
            "output_seq_and_normal_feature",
        )
        given = [name for name in kinds if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"expected one of {', '.join(kinds)}, got {' and '.join(given)}")
        if self.do_batch_norm and self.do_layer_norm:
            raise ValueError("expected do_batch_norm or do_layer_norm, got both")
        return self


class RawInput(Message):
    """The numbers of a group, without a layer."""


class EmbeddingLayer(Message):
    """A table in the network, for whole numbers from a ``raw_input``."""

    embedding_dim: int = Field(gt=0)
    vocab_size: int = Field(default=0, gt=0, validate_default=True)
    combiner: Literal["weight", "sum", "mean", "max"] = idle(default="weight")
    concat: bool = True


class Lambda(WithFunctions):
    """A function of one argument."""

    expression: str


class Input(WithFunctions):
    """One input of a block: a group, another block or a package."""

    feature_group_name: str | None = None
    block_name: str | None = None
    package_name: str | None = None
    use_package_input: bool | None = None
    input_fn: str | None = None
    input_slice: str | None = None
    ignore_input: bool = False
    reset_input: InputLayer | None = None
    package_input: str | None = None
    package_input_fn: str | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("feature_group_name", "block_name", "package_name", "use_package_input"),
    )

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        given = (self.feature_group_name, self.block_name, self.package_name)
        if not any(given) and not self.use_package_input:
            raise ValueError(f"expected one of {', '.join(self.oneofs[0])}")
        for name in ("reset_input", "package_input", "package_input_fn"):
            if getattr(self, name) is not None and not self.package_name:
                raise ValueError(f"{name} is for an input with package_name")
        return self


class Recurrent(Message):
    """A layer applied several times, each time with weights of its own."""

    num_steps: int = Field(default=1, gt=0)
    fixed_input_index: int | None = Field(default=None, ge=0)
    keras_layer: KerasLayer


class Repeat(Message):
    """Several copies of a layer over the same input; functions may take the number of a copy."""

    num_repeat: int = Field(default=1, gt=0)
    output_concat_axis: int | None = None
    keras_layer: KerasLayer
    input_slice: str | None = None
    input_fn: str | None = None

    @model_validator(mode="after")
    def _check_functions(self) -> Self:
        if self.input_slice is not None:
            parse_slice(self.input_slice, is_numbered=True)
        if self.input_fn is not None:
            parse_lambda(self.input_fn, is_numbered=True)
        return self


class Layer(Message):
    """One layer of a block with several."""

    lambda_: Lambda | None = Field(default=None, alias="lambda")
    keras_layer: KerasLayer | None = None
    recurrent: Recurrent | None = None
    repeat: Repeat | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("lambda_", "keras_layer", "recurrent", "repeat"),
    )


class Block(WithFunctions):
    """Inputs that are merged, and a layer over them; without a layer the merged inputs."""

    name: str = Field(min_length=1)
    inputs: tuple[Input, ...] = Field(min_length=1)
    input_concat_axis: int = -1
    merge_inputs_into_list: bool = False
    extra_input_fn: str | None = None
    layers: tuple[Layer, ...] = ()
    input_layer: InputLayer | None = None
    lambda_: Lambda | None = Field(default=None, alias="lambda")
    keras_layer: KerasLayer | None = None
    recurrent: Recurrent | None = None
    repeat: Repeat | None = None
    raw_input: RawInput | None = None
    embedding_layer: EmbeddingLayer | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "layers",
            "input_layer",
            "lambda_",
            "keras_layer",
            "recurrent",
            "repeat",
            "raw_input",
            "embedding_layer",
        ),
    )

    @property
    def is_source(self) -> bool:
        """Return whether the block is an input layer."""
        return self.input_layer is not None or self.raw_input is not None

    @model_validator(mode="after")
    def _check_group(self) -> Self:
        if self.is_source and (len(self.inputs) != 1 or not self.inputs[0].feature_group_name):
            raise ValueError("an input layer needs one input, with feature_group_name")
        return self


class Graph(Message):
    """Blocks and the names of those that are the output."""

    blocks: tuple[Block, ...] = Field(min_length=1)
    concat_blocks: tuple[str, ...] = ()
    output_blocks: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [block.name for block in self.blocks]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"two blocks are called {sorted(twice)[0]!r}")
        if self.concat_blocks and self.output_blocks:
            raise ValueError("expected concat_blocks or output_blocks, got both")
        return self

    def leaves(self) -> tuple[str, ...]:
        """Return the blocks that no other block reads."""
        read = {one.block_name for block in self.blocks for one in block.inputs}
        read |= {one.package_input for block in self.blocks for one in block.inputs}
        return tuple(block.name for block in self.blocks if block.name not in read)


class Package(Graph):
    """Blocks that are used together, possibly several times with the same weights."""

    name: str = Field(min_length=1)


class Backbone(Graph):
    """``backbone``."""

    packages: tuple[Package, ...] = ()
    top_mlp: MlpMessage | None = None

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        packages = [package.name for package in self.packages]
        outer = [block.name for block in self.blocks]
        graphs: list[Graph] = [self, *self.packages]
        for graph in graphs:
            own = [block.name for block in graph.blocks]
            for name in (*graph.concat_blocks, *graph.output_blocks):
                if name not in own:
                    raise ValueError(f"no block is called {name!r}{hint(name, own)}")
            for block in graph.blocks:
                _check_inputs(block, {*own, *outer}, packages)
        return self


def _check_inputs(block: Block, blocks: set[str], packages: list[str]) -> None:
    for one in block.inputs:
        if one.package_name is not None and one.package_name not in packages:
            raise ValueError(
                f"block {block.name}: no package is called {one.package_name!r}"
                f"{hint(one.package_name, packages)}"
            )
        for name, known in ((one.block_name, blocks), (one.package_input, {*blocks, *packages})):
            if name is not None and name not in known:
                if name == one.block_name:
                    continue  # may be a group, which the model knows
                raise ValueError(f"block {block.name}: no block is called {name!r}")
