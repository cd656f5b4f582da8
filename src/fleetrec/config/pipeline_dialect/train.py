"""``train_config``: optimizers, learning rates, when to save, and when to stop."""

import itertools
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fleetrec.config.options import Url
from fleetrec.config.pipeline_dialect.increments import IncrementSaveConfig
from fleetrec.config.pipeline_dialect.message import Message, idle, later

Strategy = Literal[
    "NoStrategy",
    "PSStrategy",
    "MirroredStrategy",
    "CollectiveAllReduceStrategy",
    "ExascaleStrategy",
    "MultiWorkerMirroredStrategy",
    "HorovodStrategy",
    "SokStrategy",
    "EmbeddingParallelStrategy",
]


class ConstantLearningRate(Message):
    """A constant rate."""

    learning_rate: float = Field(default=0.002, ge=0)


class ExponentialDecayLearningRate(Message):
    """Multiply by ``decay_factor`` every ``decay_steps``, after ``burnin_steps``."""

    initial_learning_rate: float = Field(default=0.002, ge=0)
    decay_steps: int = Field(default=4000000, gt=0)
    decay_factor: float = Field(default=0.95, gt=0)
    staircase: bool = True
    burnin_learning_rate: float = Field(default=0.0, ge=0)
    burnin_steps: int = Field(default=0, ge=0)
    min_learning_rate: float = Field(default=0.0, ge=0)


class LearningRateStep(Message):
    """From ``step`` on, this rate."""

    step: int = Field(default=0, ge=0)
    learning_rate: float = Field(default=0.002, ge=0)


class ManualStepLearningRate(Message):
    """Rates from given steps on; ``warmup`` increases linearly to the first."""

    initial_learning_rate: float = Field(default=0.002, ge=0)
    schedule: tuple[LearningRateStep, ...] = ()
    warmup: bool = False

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        steps = [0, *(entry.step for entry in self.schedule)]
        if len(steps) == 1:
            raise ValueError("schedule: expected at least one entry, got none")
        if any(after <= before for before, after in itertools.pairwise(steps)):
            raise ValueError(f"schedule: steps must grow, from 1 on, got {steps[1:]}")
        return self


class CosineDecayLearningRate(Message):
    """Linear warmup, constant base rate, then cosine decay to zero."""

    learning_rate_base: float = Field(default=0.002, ge=0)
    total_steps: int = Field(default=4000000, gt=0)
    warmup_learning_rate: float = Field(default=0.0002, ge=0)
    warmup_steps: int = Field(default=10000, ge=0)
    hold_base_rate_steps: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.learning_rate_base < self.warmup_learning_rate:
            raise ValueError(
                f"learning_rate_base ({self.learning_rate_base:g}) must be at least "
                f"warmup_learning_rate ({self.warmup_learning_rate:g})"
            )
        if self.total_steps < self.warmup_steps + self.hold_base_rate_steps:
            raise ValueError(
                f"total_steps ({self.total_steps}) must be at least warmup_steps and "
                f"hold_base_rate_steps together ({self.warmup_steps + self.hold_base_rate_steps})"
            )
        return self


class PolyDecayLearningRate(Message):
    """Polynomial decay over ``total_steps``."""

    learning_rate_base: float = Field(ge=0)
    total_steps: int = Field(gt=0)
    power: float = Field(gt=0)
    end_learning_rate: float = Field(default=0.0, ge=0)


class TransformerLearningRate(Message):
    """Linear warmup, then decay by the inverse square root of the step."""

    learning_rate_base: float = Field(ge=0)
    hidden_size: int = Field(gt=0)
    warmup_steps: int = Field(gt=0)
    step_scaling_rate: float = Field(default=1.0, gt=0)


class LearningRate(Message):
    """One of six schedules."""

    constant_learning_rate: ConstantLearningRate | None = None
    exponential_decay_learning_rate: ExponentialDecayLearningRate | None = None
    manual_step_learning_rate: ManualStepLearningRate | None = None
    cosine_decay_learning_rate: CosineDecayLearningRate | None = None
    poly_decay_learning_rate: PolyDecayLearningRate | None = None
    transformer_learning_rate: TransformerLearningRate | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "constant_learning_rate",
            "exponential_decay_learning_rate",
            "manual_step_learning_rate",
            "cosine_decay_learning_rate",
            "poly_decay_learning_rate",
            "transformer_learning_rate",
        ),
    )

    @model_validator(mode="after")
    def _check_some(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"expected one of {', '.join(self.oneofs[0])}, got none")
        return self


class Rated(Message):
    """Fields of all optimizers."""

    learning_rate: LearningRate


class RmsPropOptimizer(Rated):
    """RMSProp with momentum."""

    momentum_optimizer_value: float = Field(default=0.9, ge=0, lt=1)
    decay: float = Field(default=0.9, ge=0, lt=1)
    epsilon: float = Field(default=1.0, gt=0)


class MomentumOptimizer(Rated):
    """SGD with momentum."""

    momentum_optimizer_value: float = Field(default=0.9, ge=0, lt=1)


class AdamOptimizer(Rated):
    """Adam."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)


class MomentumWOptimizer(MomentumOptimizer):
    """Momentum with weight decay."""

    weight_decay: float = Field(default=1e-6, ge=0, lt=1)


class AdamWOptimizer(AdamOptimizer):
    """Adam with weight decay."""

    weight_decay: float = Field(default=1e-6, ge=0, lt=1)


class AdagradOptimizer(Rated):
    """Adagrad."""

    initial_accumulator_value: float = Field(default=0.1, gt=0)


class FtrlOptimizer(Rated):
    """Follow the regularised leader."""

    learning_rate_power: float = Field(default=-0.5, le=0)
    initial_accumulator_value: float = Field(default=0.1, gt=0)
    l1_reg: float = Field(default=0.0, ge=0)
    l2_reg: float = Field(default=0.0, ge=0)
    l2_shrinkage_reg: float = Field(default=0.0, ge=0)


class Optimizer(Message):
    """One of ten optimizers."""

    rms_prop_optimizer: RmsPropOptimizer | None = None
    momentum_optimizer: MomentumOptimizer | None = None
    adam_optimizer: AdamOptimizer | None = None
    momentumw_optimizer: MomentumWOptimizer | None = None
    adamw_optimizer: AdamWOptimizer | None = None
    adam_async_optimizer: AdamOptimizer | None = None
    adam_asyncw_optimizer: AdamWOptimizer | None = None
    adagrad_optimizer: AdagradOptimizer | None = None
    ftrl_optimizer: FtrlOptimizer | None = None
    lazy_adam_optimizer: AdamOptimizer | None = None
    use_moving_average: bool = later(default=False)
    moving_average_decay: float = later(default=0.9999)
    embedding_learning_rate_multiplier: float | None = Field(default=None, gt=0)

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "rms_prop_optimizer",
            "momentum_optimizer",
            "adam_optimizer",
            "momentumw_optimizer",
            "adamw_optimizer",
            "adam_async_optimizer",
            "adam_asyncw_optimizer",
            "adagrad_optimizer",
            "ftrl_optimizer",
            "lazy_adam_optimizer",
        ),
    )

    @model_validator(mode="after")
    def _check_some(self) -> Self:
        if not self.model_fields_set & set(self.oneofs[0]):
            raise ValueError(f"expected one of {', '.join(self.oneofs[0])}, got none")
        return self


class TrainConfig(Message):
    """How a model is trained."""

    optimizer_config: tuple[Optimizer, ...] = Field(default=(), max_length=3)
    gradient_clipping_by_norm: float = Field(default=0.0, ge=0)
    num_steps: int = Field(default=0, ge=0)
    fine_tune_checkpoint: Url = ""
    fine_tune_ckpt_var_map: str = ""
    sync_replicas: bool = True
    sparse_accumulator_type: str = idle(default="multi_map")
    startup_delay_steps: float = idle(default=15.0)
    save_checkpoints_steps: int | None = Field(default=None, gt=0)
    save_checkpoints_secs: int | None = Field(default=None, gt=0)
    keep_checkpoint_max: int = Field(default=10, ge=0)
    save_summary_steps: int = Field(default=1000, gt=0)
    log_step_count_steps: int = Field(default=10, gt=0)
    is_profiling: bool = idle(default=False)
    force_restore_shape_compatible: bool = later(default=False)
    train_distribute: Strategy = "NoStrategy"
    num_gpus_per_worker: int = Field(default=1, ge=0)
    summary_model_vars: bool = idle(default=False)
    protocol: str = idle(default="")
    inter_op_parallelism_threads: int = idle(default=0)
    intra_op_parallelism_threads: int = idle(default=0)
    tensor_fuse: bool = idle(default=False)
    write_graph: bool = idle(default=True)
    freeze_gradient: tuple[str, ...] = ()
    incr_save_config: IncrementSaveConfig | None = None
    enable_oss_stop_signal: bool = False
    dead_line: str = ""
