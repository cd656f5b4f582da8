"""Distributions of initial weights, by the names that Keras uses."""

import math

from torch import Tensor, nn


def fill_weights(weight: Tensor, kind: str) -> None:
    """Fill a weight of shape [outputs, inputs, ...]."""
    fan_in, fan_out = _fans(weight)
    family, _, shape = kind.rpartition("_")
    scales = {"he": 2 / fan_in, "lecun": 1 / fan_in, "glorot": 2 / (fan_in + fan_out)}
    if kind == "zeros":
        nn.init.zeros_(weight)
    elif kind == "ones":
        nn.init.ones_(weight)
    elif family in scales and shape == "uniform":
        bound = math.sqrt(3 * scales[family])
        nn.init.uniform_(weight, -bound, bound)
    elif family in scales:
        nn.init.trunc_normal_(weight, std=math.sqrt(scales[family]))
    elif kind == "truncated_normal":
        nn.init.trunc_normal_(weight, std=0.05, a=-0.1, b=0.1)
    elif kind == "random_normal":
        nn.init.normal_(weight, std=0.05)
    elif kind in ("random_uniform", "uniform"):
        nn.init.uniform_(weight, -0.05, 0.05)
    else:
        raise ValueError(f"no initial distribution is called {kind!r}")


def _fans(weight: Tensor) -> tuple[int, int]:
    if weight.dim() == 1:
        return weight.shape[0], weight.shape[0]
    inner = math.prod(weight.shape[2:])
    return weight.shape[1] * inner, weight.shape[0] * inner
