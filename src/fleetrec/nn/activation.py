"""Activation functions by the names that job files use."""

from typing import Literal

from torch import nn

ActivationName = Literal[
    "relu",
    "sigmoid",
    "tanh",
    "prelu",
    "gelu",
    "leaky_relu",
    "elu",
    "selu",
    "swish",
    "linear",
]


def activation(name: ActivationName) -> nn.Module:
    """Return a new activation; ``linear`` changes nothing."""
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
