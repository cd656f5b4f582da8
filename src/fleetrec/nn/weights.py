"""Initialization of weights outside standard layers."""

import math

import torch
from torch import nn


def scaled_weight(*shape: int, fan_in: int) -> nn.Parameter:
    """Return a parameter from N(0, 1/fan_in)."""
    return nn.Parameter(torch.randn(*shape) / math.sqrt(fan_in))
