"""Layers of Keras by name: builders as in ``layers``."""

# Shape suffixes: B samples, L elements, D width.

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.config.pipeline_dialect import keras_messages as messages
from fleetrec.config.pipeline_dialect.layers import SOFTMAX, LayerMessage
from fleetrec.models.backbone.values import Adapter, Value, flat, matrix
from fleetrec.nn.activation import activation
from fleetrec.nn.batch_norm import WideBatchNorm
from fleetrec.nn.dense_stack import DenseStyle, dense_layer

Fold = Callable[[Tensor, Tensor], Tensor]


def _over(module: nn.Module) -> nn.Module:
    return Adapter(module, lambda inner, value: inner(matrix(value)))


def _folded(fold: Fold, *, mean: bool = False) -> Callable[[LayerMessage, Value], nn.Module]:
    def call(_: nn.Module, value: Value) -> Tensor:
        parts = flat(value)
        result = reduce(fold, parts)
        return result / len(parts) if mean else result

    def build(message: LayerMessage, value: Value) -> nn.Module:
        del message
        if len(flat(value)) < 2:
            raise ValueError("expected a list of at least 2; set merge_inputs_into_list: true")
        return Adapter(nn.Identity(), call)

    return build


def _stateless(call: Callable[[Tensor], Tensor]) -> Callable[[LayerMessage, Value], nn.Module]:
    def build(message: LayerMessage, value: Value) -> nn.Module:
        del message, value
        return Adapter(nn.Identity(), lambda _, x: call(matrix(x)))

    return build


def _dense(message: messages.DenseMessage, value: Value) -> nn.Module:
    style = DenseStyle(
        act="linear" if message.activation == SOFTMAX else message.activation,  # type: ignore[arg-type]
        softmax=message.activation == SOFTMAX,
        batch_norm=False,
        bias=message.use_bias,
        initial=message.kernel_initializer,
    )
    return _over(dense_layer(matrix(value).shape[-1], message.units, style, dropout=0.0))


def _dropout(message: messages.DropoutMessage, value: Value) -> nn.Module:
    del value
    return _over(nn.Dropout(message.rate))


class GaussianNoise(nn.Module):
    """Adds noise in training."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return x, in training with noise."""
        return x + torch.randn_like(x) * self.scale if self.training else x


def _noise(message: messages.NoiseMessage, value: Value) -> nn.Module:
    del value
    return _over(GaussianNoise(message.stddev))


def _layer_norm(message: messages.LayerNormMessage, value: Value) -> nn.Module:
    affine = message.center or message.scale
    dim = matrix(value).shape[-1]
    if affine and not message.scale:
        raise ValueError("LayerNormalization: center without scale is not supported here")
    return _over(
        nn.LayerNorm(dim, eps=message.epsilon, elementwise_affine=affine, bias=message.center)
    )


def _batch_norm(message: messages.BatchNormMessage, value: Value) -> nn.Module:
    if message.center != message.scale:
        raise ValueError("BatchNormalization: center and scale must be equal here")
    norm = WideBatchNorm(
        matrix(value).shape[-1],
        eps=message.epsilon,
        momentum=1 - message.momentum,
        affine=message.center,
    )
    return _over(norm)


def _activation(message: messages.ActivationMessage, value: Value) -> nn.Module:
    if message.activation == SOFTMAX:
        return _over(nn.Softmax(dim=-1))
    return _over(activation(message.activation, dim=matrix(value).shape[-1]))  # type: ignore[arg-type]


def _prelu(message: LayerMessage, value: Value) -> nn.Module:
    del message
    return _over(activation("prelu", dim=matrix(value).shape[-1]))


def _leaky(message: messages.SlopeMessage, value: Value) -> nn.Module:
    del value
    return _over(nn.LeakyReLU(0.3 if message.alpha is None else message.alpha))


def _elu(message: messages.SlopeMessage, value: Value) -> nn.Module:
    del value
    return _over(nn.ELU(1.0 if message.alpha is None else message.alpha))


def _concatenate(message: messages.AxisMessage, value: Value) -> nn.Module:
    del value
    return Adapter(nn.Identity(), lambda _, x: torch.cat(flat(x), dim=message.axis))


def _softmax(message: messages.AxisMessage, value: Value) -> nn.Module:
    del value
    return _over(nn.Softmax(dim=message.axis))


def _reshape(message: messages.ReshapeMessage, value: Value) -> nn.Module:
    del value
    shape = message.target_shape
    return Adapter(nn.Identity(), lambda _, x: matrix(x).reshape(matrix(x).shape[0], *shape))


def _permute(message: messages.PermuteMessage, value: Value) -> nn.Module:
    if sorted(message.dims) != list(range(1, matrix(value).dim())):
        raise ValueError(f"Permute: expected every dimension once, got {list(message.dims)}")
    return Adapter(nn.Identity(), lambda _, x: matrix(x).permute(0, *message.dims))


def _repeat_vector(message: messages.RepeatVectorMessage, value: Value) -> nn.Module:
    del value
    return Adapter(nn.Identity(), lambda _, x: matrix(x).unsqueeze(1).expand(-1, message.n, -1))


def _dot(message: messages.DotLayerMessage, value: Value) -> nn.Module:
    if isinstance(value, Tensor) or len(flat(value)) != 2:
        raise ValueError("Dot: expected a list of two inputs")

    def call(_: nn.Module, x: Value) -> Tensor:
        left, right = flat(x)
        if message.normalize:
            left, right = functional.normalize(left, dim=1), functional.normalize(right, dim=1)
        return (left * right).sum(dim=1, keepdim=True)

    return Adapter(nn.Identity(), call)


KERAS_LAYERS: Mapping[str, Callable[[Any, Value], nn.Module]] = MappingProxyType(
    {
        "Dense": _dense,
        "Dropout": _dropout,
        "GaussianNoise": _noise,
        "LayerNormalization": _layer_norm,
        "BatchNormalization": _batch_norm,
        "Activation": _activation,
        "PReLU": _prelu,
        "LeakyReLU": _leaky,
        "ELU": _elu,
        "Concatenate": _concatenate,
        "Softmax": _softmax,
        "Reshape": _reshape,
        "Permute": _permute,
        "RepeatVector": _repeat_vector,
        "Dot": _dot,
        "Add": _folded(operator.add),
        "Subtract": _folded(operator.sub),
        "Multiply": _folded(operator.mul),
        "Average": _folded(operator.add, mean=True),
        "Maximum": _folded(torch.maximum),
        "Minimum": _folded(torch.minimum),
        "ReLU": _stateless(torch.relu),
        "Flatten": _stateless(lambda x: x.flatten(1)),
        "GlobalAveragePooling1D": _stateless(lambda x: x.mean(dim=1)),
        "GlobalMaxPooling1D": _stateless(lambda x: x.amax(dim=1)),
    }
)
