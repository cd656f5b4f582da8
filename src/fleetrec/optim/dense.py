"""Optimizers of the dense network."""

from collections.abc import Iterable

import torch
from torch import nn

from fleetrec.config.job import OptimizerOptions


def dense_optimizer(
    parameters: Iterable[nn.Parameter], options: OptimizerOptions
) -> torch.optim.Optimizer:
    """Return the optimizer of that name, with the constants of the field."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if options.name == "sgd":
        return torch.optim.SGD(trained, lr=options.lr)
    if options.name == "adagrad":
        return torch.optim.Adagrad(trained, lr=options.lr, eps=1e-6)
    return torch.optim.Adam(trained, lr=options.lr, eps=1e-8, fused=True)
