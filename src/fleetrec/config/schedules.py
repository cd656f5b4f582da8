"""Learning rate schedules."""

from typing import Annotated, Literal

from pydantic import Field

from fleetrec.config.options import Options


class ExponentialDecay(Options):
    """Multiply by ``factor`` every ``decay_steps``, in stairs or smoothly, after a burn-in."""

    kind: Literal["exponential_decay"] = "exponential_decay"
    decay_steps: int = Field(gt=0)
    factor: float = Field(gt=0)
    staircase: bool = True
    burnin_lr: float = 0.0
    burnin_steps: int = 0
    min_lr: float = 0.0


class ManualSteps(Options):
    """Rates from given steps on; ``warmup`` increases linearly to the first."""

    kind: Literal["manual_steps"] = "manual_steps"
    steps: tuple[int, ...] = Field(min_length=1)
    rates: tuple[float, ...] = Field(min_length=1)
    warmup: bool = False


class CosineDecay(Options):
    """Linear warmup, constant rate, then cosine decay to zero."""

    kind: Literal["cosine_decay"] = "cosine_decay"
    total_steps: int = Field(gt=0)
    warmup_lr: float
    warmup_steps: int
    hold_steps: int = 0


class PolynomialDecay(Options):
    """Polynomial decay from the initial rate to ``end_lr``."""

    kind: Literal["polynomial_decay"] = "polynomial_decay"
    total_steps: int = Field(gt=0)
    power: float
    end_lr: float = 0.0


class Transformer(Options):
    """Linear warmup, then decay by the inverse square root of the step."""

    kind: Literal["transformer"] = "transformer"
    hidden_size: int = Field(gt=0)
    warmup_steps: int = Field(gt=0)
    step_scale: float = 1.0


ScheduleOptions = Annotated[
    ExponentialDecay | ManualSteps | CosineDecay | PolynomialDecay | Transformer,
    Field(discriminator="kind"),
]
