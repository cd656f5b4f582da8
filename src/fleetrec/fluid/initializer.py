"""First weights, of the dense network and of tables."""

import dataclasses
import math
from typing import Protocol

import torch
from torch import Tensor

from fleetrec.core.errors import ConfigError
from fleetrec.embedding.table import Initializer
from fleetrec.fluid.missing import missing

__all__ = (
    "MSRA",
    "Constant",
    "ConstantInitializer",
    "MSRAInitializer",
    "Normal",
    "NormalInitializer",
    "TruncatedNormal",
    "TruncatedNormalInitializer",
    "Uniform",
    "UniformInitializer",
    "Xavier",
    "XavierInitializer",
)


class Initial(Protocol):
    """The first values of a weight or of the rows of a table."""

    @property
    def seed(self) -> int:
        """Return the seed of this initializer alone; 0 for none."""
        ...

    def spread(self, shape: tuple[int, ...]) -> Initializer:
        """Return the distribution for a weight of a shape."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """One value."""

    value: float = 0.0
    seed: int = dataclasses.field(default=0, init=False)

    def spread(self, shape: tuple[int, ...]) -> Initializer:
        """Return the distribution for a weight of a shape."""
        del shape
        return Initializer(kind="constant", scale=0.0, center=self.value)


@dataclasses.dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform between two bounds."""

    low: float = -1.0
    high: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ConfigError([f"Uniform: high {self.high:g} is below low {self.low:g}"])

    def spread(self, shape: tuple[int, ...]) -> Initializer:
        """Return the distribution for a weight of a shape."""
        del shape
        center = (self.low + self.high) / 2
        return Initializer(kind="uniform", scale=self.high - center, center=center)


@dataclasses.dataclass(frozen=True, slots=True)
class Normal:
    """Normal, with a mean ``loc`` and a standard deviation ``scale``."""

    loc: float = 0.0
    scale: float = 1.0
    seed: int = 0

    def spread(self, shape: tuple[int, ...]) -> Initializer:
        """Return the distribution for a weight of a shape."""
        del shape
        return Initializer(kind="normal", scale=self.scale, center=self.loc)


@dataclasses.dataclass(frozen=True, slots=True)
class TruncatedNormal:
    """Normal, cut off at two standard deviations."""

    loc: float = 0.0
    scale: float = 1.0
    seed: int = 0

    def spread(self, shape: tuple[int, ...]) -> Initializer:
        """Return the distribution for a weight of a shape."""
        del shape
        return Initializer(kind="truncated_normal", scale=self.scale, center=self.loc)


@dataclasses.dataclass(frozen=True, slots=True)
class Xavier:
    """Glorot's: a variance of 2 / (fan_in + fan_out)."""

    uniform: bool = True
    fan_in: int | None = None
    fan_out: int | None = None
    seed: int = 0

    def spread(self, shape: tuple[int, ...]) -> Initializer:
        """Return the distribution for a weight of a shape."""
        fan_in, fan_out = _fans(shape)
        fans = (self.fan_in or fan_in) + (self.fan_out or fan_out)
        return _with_variance(2 / fans, is_uniform=self.uniform)


@dataclasses.dataclass(frozen=True, slots=True)
class MSRA:
    """He's: a variance of 2 / fan_in."""

    uniform: bool = True
    fan_in: int | None = None
    seed: int = 0

    def spread(self, shape: tuple[int, ...]) -> Initializer:
        """Return the distribution for a weight of a shape."""
        return _with_variance(2 / (self.fan_in or _fans(shape)[0]), is_uniform=self.uniform)


ConstantInitializer = Constant
UniformInitializer = Uniform
NormalInitializer = Normal
TruncatedNormalInitializer = TruncatedNormal
XavierInitializer = Xavier
MSRAInitializer = MSRA


def first_values(initial: Initial, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return the first values of a weight; a seed of the initializer replaces the generator."""
    if initial.seed:
        generator = torch.Generator().manual_seed(initial.seed)
    spread, values = initial.spread(shape), torch.empty(shape)
    match spread.kind:
        case "constant":
            return values.fill_(spread.center)
        case "uniform":
            low, high = spread.center - spread.scale, spread.center + spread.scale
            return values.uniform_(low, high, generator=generator)
        case "normal":
            return values.normal_(spread.center, spread.scale, generator=generator)
        case "truncated_normal":
            reach = 2 * spread.scale
            low, high = spread.center - reach, spread.center + reach
            return torch.nn.init.trunc_normal_(
                values, spread.center, spread.scale, low, high, generator=generator
            )


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) < 2:
        return (math.prod(shape), math.prod(shape))
    return (math.prod(shape[:-1]), shape[-1])


def _with_variance(variance: float, *, is_uniform: bool) -> Initializer:
    if is_uniform:
        return Initializer(kind="uniform", scale=math.sqrt(3 * variance))
    return Initializer(kind="normal", scale=math.sqrt(variance))


__getattr__ = missing("fluid.initializer", __all__)
