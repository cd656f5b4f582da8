"""The learning rate as a pure function of the step, which counts from 0."""

import math

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.schedules import (
    CosineDecay,
    ExponentialDecay,
    ManualSteps,
    PolynomialDecay,
    Transformer,
)


def learning_rate(options: OptimizerOptions, step: int) -> float:
    """Return the rate of one step."""
    match options.schedule:
        case None:
            return options.lr
        case ExponentialDecay():
            return exponential_decay(options.lr, options.schedule, step)
        case ManualSteps():
            return manual_steps(options.lr, options.schedule, step)
        case CosineDecay():
            return cosine_decay(options.lr, options.schedule, step)
        case PolynomialDecay():
            return polynomial_decay(options.lr, options.schedule, step)
        case Transformer():
            return transformer(options.lr, options.schedule, step)


def exponential_decay(base: float, schedule: ExponentialDecay, step: int) -> float:
    """Return base * factor^(steps / decay_steps) after the burn-in, at least the minimum."""
    if step < schedule.burnin_steps:
        if schedule.burnin_lr == 0:
            return max(base, schedule.min_lr)
        share = step / schedule.burnin_steps
        rate = schedule.burnin_lr + (base - schedule.burnin_lr) * share
        return max(rate, schedule.min_lr)
    exponent = (step - schedule.burnin_steps) / schedule.decay_steps
    if schedule.staircase:
        exponent = math.floor(exponent)
    return float(max(base * schedule.factor**exponent, schedule.min_lr))


def manual_steps(base: float, schedule: ManualSteps, step: int) -> float:
    """Return the rate of the last boundary reached."""
    if step < schedule.steps[0]:
        if not schedule.warmup:
            return base
        return base + (schedule.rates[0] - base) * step / schedule.steps[0]
    place = sum(begin <= step for begin in schedule.steps)
    return schedule.rates[place - 1]


def cosine_decay(base: float, schedule: CosineDecay, step: int) -> float:
    """Return a linear warmup, then base, then a cosine decay to zero."""
    if step < schedule.warmup_steps:
        share = step / schedule.warmup_steps
        return schedule.warmup_lr + (base - schedule.warmup_lr) * share
    held = schedule.warmup_steps + schedule.hold_steps
    if step < held:
        return base
    if step >= schedule.total_steps:
        return 0.0
    share = (step - held) / (schedule.total_steps - held)
    return 0.5 * base * (1 + math.cos(math.pi * share))


def polynomial_decay(base: float, schedule: PolynomialDecay, step: int) -> float:
    """Return (base - end) * (1 - step / total)^power + end."""
    left = 1 - min(step, schedule.total_steps) / schedule.total_steps
    return float((base - schedule.end_lr) * left**schedule.power + schedule.end_lr)


def transformer(base: float, schedule: Transformer, step: int) -> float:
    """Return base * hidden^-0.5 * min((s + 1) * w^-1.5, (s + 1)^-0.5), s and w scaled."""
    scaled = step * schedule.step_scale + 1
    warmup = schedule.warmup_steps * schedule.step_scale
    return float(base * schedule.hidden_size**-0.5 * min(scaled * warmup**-1.5, scaled**-0.5))
