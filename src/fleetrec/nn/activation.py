"""Activation functions by the names that job files use."""

from torch import nn

from fleetrec.config.groups import ActivationName as ActivationName


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
