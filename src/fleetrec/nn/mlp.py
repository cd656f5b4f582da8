"""Multi-layer perceptron."""

import itertools
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.nn.activation import ActivationName
from fleetrec.nn.activation import activation as make_activation
from fleetrec.nn.batch_norm import BatchNorm


class Mlp(nn.Sequential):
    """Linear layers of the given widths, each followed by an activation, ReLU by default.

    Weights start at N(0, 1/fan_in). Batch normalisation stands before the activation, dropout
    behind it, in all layers alike or as much as each of them is given; both act in training only.
    """

    def __init__(
        self,
        in_dim: int,
        hidden: Sequence[int],
        *,
        activation: ActivationName = "relu",
        batch_norm: bool = False,
        dropout: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__()
        ratios = [dropout] * len(hidden) if isinstance(dropout, float | int) else list(dropout)
        widths = itertools.pairwise([in_dim, *hidden])
        for (fan_in, fan_out), ratio in zip(widths, ratios, strict=True):
            layer = nn.Sequential(scaled_linear(fan_in, fan_out))
            if batch_norm:
                layer.append(BatchNorm(fan_out))
            layer.append(make_activation(activation))
            if ratio:
                layer.append(nn.Dropout(ratio))
            self.append(layer)
        self.out_dim = [in_dim, *hidden][-1]

    def of_parts(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the output for inputs that stand side by side, without putting them there.

        The first layer adds up, in place, what its columns make of each part: a copy less, and one
        less of the gradient. The widest part had best be the first.
        """
        if len(parts) == 1 or not len(self):
            return cast(Tensor, self(torch.cat(list(parts), dim=1)))
        first = cast(nn.Sequential, self[0])
        linear = cast(nn.Linear, first[0])
        begin = parts[0].shape[1]
        x = functional.linear(parts[0], linear.weight[:, :begin], linear.bias)
        for part in parts[1:]:
            end = begin + part.shape[1]
            x = x.addmm_(part, linear.weight[:, begin:end].t())
            begin = end
        for layer in (*list(first)[1:], *list(self)[1:]):
            x = layer(x)
        return x


def scaled_linear(in_dim: int, out_dim: int, *, bias: bool = True) -> nn.Linear:
    """Return a linear layer with weights from N(0, 1/fan_in) and zero bias."""
    linear = nn.Linear(in_dim, out_dim, bias=bias)
    nn.init.normal_(linear.weight, std=1.0 / math.sqrt(in_dim))
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
