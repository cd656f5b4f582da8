"""Activation functions by the names that job files use."""

from torch import nn

from fleetrec.config.groups import ActivationName as ActivationName
from fleetrec.nn.dice import Dice


def activation(name: ActivationName, *, dim: int) -> nn.Module:
    """Return a new activation of values whose last dimension is ``dim``.

    Only ``dice`` depends on the width; ``linear`` changes nothing.
    """
    if name == "dice":
        return Dice(dim)
    kinds: dict[str, type[nn.Module]] = {
        "relu": nn.ReLU,
        "sigmoid": nn.Sigmoid,
        "tanh": nn.Tanh,
        "prelu": nn.PReLU,
        "gelu": nn.GELU,
        "leaky_relu": nn.LeakyReLU,
        "elu": nn.ELU,
        "selu": nn.SELU,
        "swish": nn.SiLU,
        "linear": nn.Identity,
    }
    return kinds[name]()
