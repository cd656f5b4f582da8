"""Functions of single values, by name: as layers, and as the ``act`` of other layers."""

from collections.abc import Callable

import torch
from torch import Tensor

from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import Variable, record

Function = Callable[[Tensor], Tensor]


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


FUNCTIONS: tuple[tuple[str, Function], ...] = (
    ("abs", torch.abs),
    ("exp", torch.exp),
    ("log", torch.log),
    ("relu", torch.relu),
    ("sigmoid", torch.sigmoid),
    ("softmax", _softmax),
    ("softplus", torch.nn.functional.softplus),
    ("sqrt", torch.sqrt),
    ("square", torch.square),
    ("tanh", torch.tanh),
)


def activate(x: Variable, act: str | None) -> Variable:
    """Return a function of a variable by its name, or the variable without one."""
    if act is None:
        return x
    known = dict(FUNCTIONS)
    if act not in known:
        raise ConfigError([f"act: no function is called {act!r}; known: {', '.join(known)}"])
    function = known[act]
    return record(act, [x], lambda call: function(call.inputs[0]))


def _layer(name: str, function: Function) -> Callable[..., Variable]:
    def layer(x: Variable, name: str | None = None) -> Variable:
        return record(kind, [x], lambda call: function(call.inputs[0]), name=name)

    kind = layer.__name__ = name
    layer.__doc__ = f"Return {name} of every value."
    return layer


abs = _layer("abs", torch.abs)
exp = _layer("exp", torch.exp)
log = _layer("log", torch.log)
relu = _layer("relu", torch.relu)
sigmoid = _layer("sigmoid", torch.sigmoid)
softplus = _layer("softplus", torch.nn.functional.softplus)
sqrt = _layer("sqrt", torch.sqrt)
square = _layer("square", torch.square)
tanh = _layer("tanh", torch.tanh)


def softmax(
    input: Variable,
    use_cudnn: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    name: str | None = None,
    axis: int = -1,
) -> Variable:
    """Return the softmax along an axis."""
    del use_cudnn  # about the speed on GPUs
    return record("softmax", [input], lambda call: torch.softmax(call.inputs[0], axis), name=name)
