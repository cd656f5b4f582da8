"""Layers with weights, and dropout."""

import math
from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import Call, Program, Variable, Weight, check_values, record
from fleetrec.fluid.initializer import Constant, Initial, Xavier
from fleetrec.fluid.layers.activation import activate
from fleetrec.fluid.missing import check_defaults
from fleetrec.fluid.param_attr import Attr, AttrLike, to_attr
from fleetrec.fluid.programs import default_main_program
from fleetrec.nn.batch_norm import BatchNorm


def fc(  # noqa: PLR0913 (those of Fluid)
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Return act(sum of x W over the inputs + b); sizes from num_flatten_dims on are joined."""
    inputs = [input] if isinstance(input, Variable) else list(input)
    check_values("fc", inputs)
    if not inputs or size < 1 or num_flatten_dims < 1:
        raise ConfigError([f"fluid.layers.fc: expected inputs and a positive size, got {size}"])
    program, attr, bias = inputs[0].program, to_attr(param_attr), to_attr(bias_attr)
    if attr is None:
        raise ConfigError(["fluid.layers.fc: param_attr False: the layer has weights"])
    own = name or program.unique("fc")
    weights: list[str] = []
    for index, x in enumerate(inputs):
        width = math.prod(x.shape[num_flatten_dims:])
        if width < 1 or -1 in x.shape[num_flatten_dims:]:
            raise ConfigError(
                [f"fluid.layers.fc: the width of {x.name} depends on the batch: {list(x.shape)}"]
            )
        shape = (width, size)
        weights.append(_weight(program, attr, f"{own}.w_{index}", shape, Xavier()))
    if bias is not None:
        weights.append(_weight(program, bias, f"{own}.b_0", (size,), Constant(0.0)))

    def compute(call: Call) -> Tensor:
        flat = [x.flatten(num_flatten_dims) for x in call.inputs]
        total = flat[0] @ call.weights[0]
        for x, weight in zip(flat[1:], call.weights[1:], strict=False):
            total = total + x @ weight
        return total if bias is None else total + call.weights[-1]

    return activate(record("fc", inputs, compute, weights=weights, name=own), act)


def batch_norm(  # noqa: PLR0913 (those of Fluid)
    input: Variable,
    act: str | None = None,
    is_test: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalise columns: by the batch in training, by moving averages in inference."""
    where = "fluid.layers.batch_norm"
    check_defaults(where, {"is_test": (is_test, False), "data_layout": (data_layout, "NCHW")})
    check_values("batch_norm", [input])
    if len(input.shape) != 2 or input.shape[1] < 1:
        raise ConfigError([f"{where}: expected a shape [-1, width], got {list(input.shape)}"])
    program, attr, bias = input.program, to_attr(param_attr), to_attr(bias_attr)
    if attr is None or bias is None:
        raise ConfigError([f"{where}: expected a scale and a bias, got False"])
    own, width = name or program.unique("batch_norm"), input.shape[1]
    weights = [
        _weight(program, attr, f"{own}.w_0", (width,), Constant(1.0)),
        _weight(program, bias, f"{own}.b_0", (width,), Constant(0.0)),
    ]
    program.modules[own] = lambda: BatchNorm(
        width, eps=epsilon, momentum=1 - momentum, affine=False
    )

    def compute(call: Call) -> Tensor:
        assert call.module is not None
        normalised: Tensor = call.module(call.inputs[0])
        return normalised * call.weights[0] + call.weights[1]

    return activate(
        record("batch_norm", [input], compute, weights=weights, module=own, name=own), act
    )


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Set values to zero at random in training.

    Values that stay are not scaled, and inference multiplies by 1 - dropout_prob; with
    ``upscale_in_train`` training divides by it. Steps have seeds of their own.
    """
    where = "fluid.layers.dropout"
    check_defaults(where, {"is_test": (is_test, False), "seed": (seed, None)})
    known = ("downgrade_in_infer", "upscale_in_train")
    if dropout_implementation not in known:
        raise ConfigError(
            [f"{where}: no dropout_implementation {dropout_implementation!r}; known: {known}"]
        )
    if not 0 <= dropout_prob <= 1:
        raise ConfigError([f"{where}: expected a probability, got {dropout_prob}"])
    kept, is_upscaled = 1 - dropout_prob, dropout_implementation == known[1]

    def compute(call: Call) -> Tensor:
        found = call.inputs[0]
        if call.is_training:
            dropped = functional.dropout(found, dropout_prob)
            return dropped if is_upscaled or kept == 0 else dropped * kept
        return found if is_upscaled else found * kept

    return record("dropout", [x], compute, name=name)


def create_parameter(
    shape: Sequence[int],
    dtype: str,
    name: str | None = None,
    attr: AttrLike = None,
    is_bias: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    default_initializer: Initial | None = None,
) -> Variable:
    """Return a weight of your own, which other layers can compute with."""
    check_defaults("fluid.layers.create_parameter", {"dtype": (dtype, "float32")})
    program, described = default_main_program(), to_attr(attr)
    if described is None:
        raise ConfigError(["fluid.layers.create_parameter: attr False: a parameter has weights"])
    own = program.unique("create_parameter")
    usual: Initial = default_initializer or (Constant(0.0) if is_bias else Xavier())
    chosen = Attr(name=described.name or name, initializer=described.initializer)
    weight = _weight(program, chosen, f"{own}.w_0", tuple(shape), usual)
    return record(
        "create_parameter",
        [],
        lambda call: call.weights[0],
        weights=[weight],
        name=own,
        program=program,
    )


def _weight(
    program: Program, attr: Attr, name: str, shape: tuple[int, ...], initial: Initial
) -> str:
    weight = Weight(shape=shape, initial=attr.initializer or initial)
    return program.add_weight(attr.name or name, weight)
