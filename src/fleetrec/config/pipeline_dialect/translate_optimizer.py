"""From the messages of optimizers and learning rates to options."""

from fleetrec.config.job import OptimizerName, OptimizerOptions
from fleetrec.config.pipeline_dialect.train import (
    AdagradOptimizer,
    AdamOptimizer,
    AdamWOptimizer,
    FtrlOptimizer,
    LearningRate,
    MomentumOptimizer,
    MomentumWOptimizer,
    Optimizer,
    Rated,
    RmsPropOptimizer,
)
from fleetrec.config.schedules import (
    CosineDecay,
    ExponentialDecay,
    ManualSteps,
    PolynomialDecay,
    ScheduleOptions,
    Transformer,
)


def optimizer_options(message: Optimizer) -> OptimizerOptions:
    """Return the optimizer of a message; the name says which formula weights follow."""
    (field,) = message.model_fields_set & set(Optimizer.oneofs[0])
    rated: Rated = getattr(message, field)
    name, settings = _formula(rated)
    lr, schedule = _schedule(rated.learning_rate)
    return OptimizerOptions(name=name, lr=lr, settings=settings, schedule=schedule)


def _formula(rated: Rated) -> tuple[OptimizerName, dict[str, float]]:
    match rated:
        case RmsPropOptimizer():
            return "rmsprop_momentum", {
                "decay": rated.decay,
                "momentum": rated.momentum_optimizer_value,
                "eps": rated.epsilon,
            }
        case MomentumOptimizer():
            settings = {"momentum": rated.momentum_optimizer_value, **_weight_decay(rated)}
            return "momentumw" if _weight_decay(rated) else "momentum", settings
        case AdamOptimizer():
            settings = {"beta1": rated.beta1, "beta2": rated.beta2, **_weight_decay(rated)}
            return "lazy_adamw" if _weight_decay(rated) else "lazy_adam", settings
        case AdagradOptimizer():
            initial = rated.initial_accumulator_value
            return "adagrad", {"initial_accumulator": initial, "eps": 0.0}
    assert isinstance(rated, FtrlOptimizer)
    return "ftrl_power", {
        "initial_accumulator": rated.initial_accumulator_value,
        "l1": rated.l1_reg,
        "l2": rated.l2_reg,
        "l2_shrinkage": rated.l2_shrinkage_reg,
        "power": rated.learning_rate_power,
    }


def _weight_decay(rated: Rated) -> dict[str, float]:
    if isinstance(rated, AdamWOptimizer | MomentumWOptimizer):
        return {"weight_decay": rated.weight_decay}
    return {}


def _schedule(message: LearningRate) -> tuple[float, ScheduleOptions | None]:
    """Return the initial learning rate and its schedule."""
    if (rate := message.exponential_decay_learning_rate) is not None:
        return rate.initial_learning_rate, ExponentialDecay(
            decay_steps=rate.decay_steps,
            factor=rate.decay_factor,
            staircase=rate.staircase,
            burnin_lr=rate.burnin_learning_rate,
            burnin_steps=rate.burnin_steps,
            min_lr=rate.min_learning_rate,
        )
    if (manual := message.manual_step_learning_rate) is not None:
        return manual.initial_learning_rate, ManualSteps(
            steps=tuple(entry.step for entry in manual.schedule),
            rates=tuple(entry.learning_rate for entry in manual.schedule),
            warmup=manual.warmup,
        )
    if (cosine := message.cosine_decay_learning_rate) is not None:
        return cosine.learning_rate_base, CosineDecay(
            total_steps=cosine.total_steps,
            warmup_lr=cosine.warmup_learning_rate,
            warmup_steps=cosine.warmup_steps,
            hold_steps=cosine.hold_base_rate_steps,
        )
    if (poly := message.poly_decay_learning_rate) is not None:
        return poly.learning_rate_base, PolynomialDecay(
            total_steps=poly.total_steps, power=poly.power, end_lr=poly.end_learning_rate
        )
    if (transformer := message.transformer_learning_rate) is not None:
        return transformer.learning_rate_base, Transformer(
            hidden_size=transformer.hidden_size,
            warmup_steps=transformer.warmup_steps,
            step_scale=transformer.step_scaling_rate,
        )
    assert message.constant_learning_rate is not None
    return message.constant_learning_rate.learning_rate, None
