"""Multi-layer perceptron."""

import itertools
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName
from fleetrec.nn.activation import activation as make_activation
from fleetrec.nn.batch_norm import WideBatchNorm
from fleetrec.nn.linear import Linear
from fleetrec.nn.linear_relu import linear_of_parts, linear_relus


class Mlp(nn.Sequential):
    """Linear layers of the given widths, each followed by an activation, ReLU by default.

    Weights start at N(0, 1/fan_in). Batch normalisation is applied before the activation, dropout
    after it. ``dropout`` is one rate for all layers or one per layer. Both act in training only.
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
        if min(hidden, default=1) < 1:
            raise ValueError(f"layer widths must be at least 1, got {list(hidden)}")
        ratios = [dropout] * len(hidden) if isinstance(dropout, float | int) else list(dropout)
        widths = itertools.pairwise([in_dim, *hidden])
        for (fan_in, fan_out), ratio in zip(widths, ratios, strict=True):
            layer = nn.Sequential(scaled_linear(fan_in, fan_out))
            if batch_norm:
                layer.append(WideBatchNorm(fan_out))
            layer.append(make_activation(activation, dim=fan_out))
            if ratio:
                layer.append(nn.Dropout(ratio))
            self.append(layer)
        self.out_dim = [in_dim, *hidden][-1]
        self._is_plain = activation == "relu" and not batch_norm and not any(ratios)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the last layer."""
        return self.of_parts([x])

    def of_parts(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the output for the concatenation of ``parts``, without building it.

        The first layer sums the products of each part with its columns, which saves a copy of the
        input and one of its gradient.
        """
        if not len(self):
            return torch.cat(list(parts), dim=-1)
        if self._computes_together(parts):
            return linear_relus(parts, self._linears())
        layers = [list(cast(nn.Sequential, layer)) for layer in self]
        x = linear_of_parts(parts, cast(Linear, layers[0][0]))
        for module in itertools.chain(layers[0][1:], *layers[1:]):
            x = module(x)
        return x

    def logit_of_parts(self, parts: Sequence[Tensor], head: Linear) -> Tensor:
        """Return the output of ``head`` on ``of_parts``: one number per sample."""
        if len(self) and self._computes_together(parts):
            return linear_relus(parts, self._linears(), head)
        return cast(Tensor, head(self.of_parts(parts))).squeeze(-1)

    def _linears(self) -> list[Linear]:
        return [cast(Linear, cast(nn.Sequential, layer)[0]) for layer in self]

    def _computes_together(self, parts: Sequence[Tensor]) -> bool:
        learns = self.training and torch.is_grad_enabled()
        return learns and self._is_plain and all(map(_is_plain_matrix, parts))


def _is_plain_matrix(x: Tensor) -> bool:
    return x.dim() == 2 and x.device.type == "cpu" and x.dtype == torch.float32


def scaled_linear(in_dim: int, out_dim: int, *, bias: bool = True) -> Linear:
    """Return a linear layer with weights from N(0, 1/fan_in) and zero bias."""
    linear = Linear(in_dim, out_dim, bias=bias)
    nn.init.normal_(linear.weight, std=1.0 / math.sqrt(in_dim))
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
