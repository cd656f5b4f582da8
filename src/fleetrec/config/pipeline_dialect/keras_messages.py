"""The messages of Keras layers in a backbone, which take ``st_params`` only."""

from typing import Literal

from pydantic import Field

from fleetrec.config.pipeline_dialect.layers import Initializer, LayerMessage


class PlainLayer(LayerMessage):
    """A layer without parameters."""


class AxisMessage(LayerMessage):
    """``Concatenate`` and ``Softmax``."""

    axis: int = -1


class DenseMessage(LayerMessage):
    """``Dense``."""

    units: int = Field(gt=0)
    activation: str = "linear"
    use_bias: bool = True
    kernel_initializer: Initializer = "glorot_uniform"


class DropoutMessage(LayerMessage):
    """``Dropout``."""

    rate: float = Field(ge=0, lt=1)


class NoiseMessage(LayerMessage):
    """``GaussianNoise``."""

    stddev: float = Field(ge=0)


class LayerNormMessage(LayerMessage):
    """``LayerNormalization``."""

    epsilon: float = Field(default=1e-3, gt=0)
    center: bool = True
    scale: bool = True


class BatchNormMessage(LayerMessage):
    """``BatchNormalization``."""

    momentum: float = Field(default=0.99, gt=0, lt=1)
    epsilon: float = Field(default=1e-3, gt=0)
    center: bool = True
    scale: bool = True


class ActivationMessage(LayerMessage):
    """``Activation``."""

    activation: str


class SlopeMessage(LayerMessage):
    """``LeakyReLU`` and ``ELU``."""

    alpha: float | None = Field(default=None, ge=0)


class ReshapeMessage(LayerMessage):
    """``Reshape``: the shape of one sample."""

    target_shape: tuple[int, ...] = Field(min_length=1)


class PermuteMessage(LayerMessage):
    """``Permute``: the order of the dimensions of one sample, from 1."""

    dims: tuple[int, ...] = Field(min_length=1)


class RepeatVectorMessage(LayerMessage):
    """``RepeatVector``."""

    n: int = Field(gt=0)


class DotLayerMessage(LayerMessage):
    """``Dot``: of two matrices of samples."""

    axes: Literal[1, -1] = -1
    normalize: bool = False
