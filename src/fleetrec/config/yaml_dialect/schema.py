"""The keys of the YAML dialect, as job files spell them."""

import math
import re
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from fleetrec.config.job import MatmulPrecision, OptimizerName
from fleetrec.config.options import lower
from fleetrec.config.rules import MAX_FOLD_MIB, RowType
from fleetrec.config.yaml_dialect.online import OnlineKeys
from fleetrec.config.yaml_dialect.section import (
    Int,
    MaybePath,
    MaybeUrl,
    PathText,
    Section,
)

RunnerClass = Literal[
    "online",
    "online_train",
    "train",
    "single_train",
    "infer",
    "single_infer",
    "local_cluster",
    "local_cluster_train",
    "local_cluster_infer",
    "cluster",
    "cluster_train",
    "cluster_infer",
]

MAX_DENSE_WIDTH = 1 << 24


OLD_RUNNER_KEYS = MappingProxyType({"phase": "phases", "fetch_period": "print_interval"})


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _words(value: Any) -> Any:
    """Split ``"click 1 2"``; a single number is a name too."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return value.split() if isinstance(value, str) else value


def _unescaped(value: Any) -> Any:
    r"""Read ``\t`` and ``\001`` as other programs write them."""
    if isinstance(value, str) and re.fullmatch(r"\\([0-7]{3})", value):
        return chr(int(value[1:], 8))
    return {"\\t": "\t"}.get(value, value) if isinstance(value, str) else value


Gpu = Annotated[Int, Field(ge=0)]
FileName = Annotated[str, Field(pattern=r"^[^/.][^/]*$")]  # it becomes the name of a folder
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Byte = Annotated[str, BeforeValidator(_unescaped), Field(min_length=1, max_length=1)]


class Dataset(Section):
    """An entry of ``dataset``."""

    name: str
    type: Literal["DataLoader", "QueueDataset", "InMemoryDataset"]
    batch_size: Int | None = Field(default=None, gt=0)
    data_path: PathText | None = None  # an online runner names its folders itself
    sparse_slots: Words = ()
    dense_slots: Words = ()
    padding: Int = Field(default=0, ge=-(2**63), lt=2**63)
    data_converter: MaybePath = None
    reader_class_name: str = "Reader"
    format: str | None = None
    pipe_command: str | None = None
    separator: Byte | None = None
    quote: Byte | Literal["none"] | None = None
    columns: Words = ()
    list_separator: str | None = Field(default=None, min_length=1)
    weight_separator: Byte | None = None
    vocabularies: dict[str, PathText | tuple[str, ...]] = Field(default_factory=dict)
    buckets: dict[str, Annotated[Int, Field(gt=0)]] = Field(default_factory=dict)
    shuffle_rows: Int = Field(default=0, ge=0)
    bad_rows: Literal["raise", "skip"] = "raise"
    max_bad_rows: Int | None = Field(default=None, ge=0)
    filters: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    sample_ratio: float = Field(default=1.0, gt=0, le=1)
    sample_weight: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _leave_to_reader(cls, data: Any) -> Any:
        """Allow extra keys for a custom reader."""
        if not isinstance(data, dict) or not data.get("data_converter"):
            return data
        return {key: value for key, value in data.items() if key in cls.model_fields}

    @field_validator("filters")
    @classmethod
    def _check_filters(cls, filters: tuple[str, ...]) -> tuple[str, ...]:
        for text in filters:
            comparison(text)
        return filters

    @field_validator("sparse_slots")
    @classmethod
    def _check_sparse(cls, slots: tuple[str, ...]) -> tuple[str, ...]:
        for slot in slots:
            if ":" in slot:
                raise ValueError(f"expected names without a colon, not {slot!r}")
        return slots

    @field_validator("dense_slots")
    @classmethod
    def _check_dense(cls, slots: tuple[str, ...]) -> tuple[str, ...]:
        for slot in slots:
            dense_shape(slot)
        return slots


class Phase(Section):
    """An entry of ``phase``."""

    name: FileName
    model: PathText
    dataset_name: str
    thread_num: Int | None = Field(default=None, gt=0)
    gradient_scale_strategy: Literal[0, 1, 2] = 0
    shuffle_filelist: bool = False


class CommunicatorKeys(Section):
    """``communicator`` of a runner: how gradients go to parameter servers."""

    is_sgd_optimizer: bool = Field(default=False, alias="FLAGS_communicator_is_sgd_optimizer")
    send_queue_size: Int = Field(default=1, gt=0, alias="FLAGS_communicator_send_queue_size")
    max_merge_var_num: Int = Field(default=1, gt=0, alias="FLAGS_communicator_max_merge_var_num")
    max_send_grad_num_before_recv: Int = Field(
        default=1, gt=0, alias="FLAGS_communicator_max_send_grad_num_before_recv"
    )
    thread_pool_size: Int = Field(default=5, gt=0, alias="FLAGS_communicator_thread_pool_size")
    fake_rpc: bool = Field(default=False, alias="FLAGS_communicator_fake_rpc")
    rpc_retry_times: Int | None = Field(default=None, ge=0, alias="FLAGS_rpc_retry_times")
    rpc_deadline: Int = Field(default=180_000, gt=0, alias="FLAGS_rpc_deadline")  # milliseconds
    pull_ahead: bool = False


class EvalInterval(Section):
    """``eval_interval`` of a runner: a number of epochs or of steps."""

    epochs: Int | None = Field(default=None, gt=0)
    steps: Int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("expected epochs or steps, not both")
        return self


class KeepBest(Section):
    """``keep_best`` of a runner: the checkpoint that has the best value of a metric."""

    metric: str
    minimize: bool | None = None
    path: MaybePath = None


class EarlyStop(Section):
    """``early_stop`` of a runner: stop after ``patience`` evaluations without a better value."""

    metric: str
    minimize: bool | None = None
    patience: Int = Field(default=3, gt=0)


class Runner(OnlineKeys):
    """An entry of ``runner``."""

    name: FileName
    runner_class: Annotated[RunnerClass, BeforeValidator(lower)] = Field(alias="class")
    device: Annotated[Literal["cpu", "gpu"], BeforeValidator(lower)] = "cpu"
    selected_gpus: tuple[Gpu, ...] = Field(default=(0,), min_length=1)
    matmul_precision: Annotated[MatmulPrecision, BeforeValidator(lower)] = "highest"
    fleet_mode: Annotated[Literal["ps", "collective", "pslib"], BeforeValidator(lower)] = "ps"
    distribute_strategy: Literal["async", "sync", "half_async", "geo"] = "async"
    worker_num: Int = Field(default=1, gt=0)
    server_num: Int = Field(default=1, gt=0)
    max_restarts: Int = Field(default=3, ge=0)
    placement: Annotated[Literal["auto", "replicated", "sharded"], BeforeValidator(lower)] = "auto"
    rank_timeout: float = Field(default=300, gt=0)  # seconds
    exchange_ahead: bool = False
    communicator: CommunicatorKeys = CommunicatorKeys()
    epochs: Int | None = Field(default=None, gt=0)
    phases: Names = ()
    init_model_path: MaybeUrl = None
    init_pretraining_model_path: MaybeUrl = None
    save_checkpoint_interval: Int = Field(default=-1, ge=-1)
    save_checkpoint_base_interval: Int = Field(default=1, gt=0)
    save_checkpoint_path: MaybeUrl = None
    save_inference_interval: Int = Field(default=-1, ge=-1)
    save_inference_path: MaybeUrl = None
    save_inference_feed_varnames: Names = ()
    save_inference_fetch_varnames: Names = ()
    save_inference_rows: RowType = "float32"
    save_inference_fold_tables: Int = Field(default=0, ge=0, le=MAX_FOLD_MIB)
    save_step_interval: Int = Field(default=-1, ge=-1)
    save_step_path: MaybeUrl = None
    eval_dataset: str | None = None
    eval_interval: EvalInterval = EvalInterval()
    early_stop: EarlyStop | None = None
    keep_best: KeepBest | None = None
    print_interval: Int = Field(default=20, gt=0)
    runner_result_dump_path: MaybeUrl = None
    instance_class_path: MaybePath = None
    network_class_path: MaybePath = None
    startup_class_path: MaybePath = None
    terminal_class_path: MaybePath = None
    trainer_class: str = "GeneralTrainer"
    finetuning_aspect_varnames: Names = ()
    load_vars: Names = ()
    seed: Int = Field(default=0, ge=0, lt=2**63)

    @model_validator(mode="before")
    @classmethod
    def _read_old_names(cls, data: Any) -> Any:
        """Read keys under their names in other versions of PaddleRec."""
        if not isinstance(data, dict):
            return data
        renamed = {old: new for old, new in OLD_RUNNER_KEYS.items() if new not in data}
        return {renamed.get(key, key): value for key, value in data.items()}

    @field_validator("selected_gpus", mode="before")
    @classmethod
    def _split_gpus(cls, value: Any) -> Any:
        """Accept ``0``, ``"0"``, ``"0,1"`` and ``[0, 1]``."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",")]
        return [value] if isinstance(value, int) else value

    @model_validator(mode="after")
    def _check_matmul_precision(self) -> Self:
        if self.matmul_precision != "highest" and self.device == "gpu":
            raise ValueError("matmul_precision is for device: cpu")
        return self


class OptimizerKeys(Section):
    """``hyper_parameters.optimizer``."""

    optimizer_class: Annotated[OptimizerName, BeforeValidator(lower)] = Field(
        default="adam", alias="class"
    )
    learning_rate: float = Field(default=0.001, gt=0)
    strategy: str | None = None
    decay_steps: Int | None = Field(default=None, gt=0)
    decay_rate: float | None = Field(default=None, gt=0, le=1)
    l2: float | None = Field(default=None, ge=0)

    @field_validator("learning_rate")
    @classmethod
    def _check_finite(cls, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError("expected a finite number")
        return value

    @model_validator(mode="after")
    def _check_decay(self) -> Self:
        if (self.decay_steps is None) != (self.decay_rate is None):
            raise ValueError("decay_steps and decay_rate belong together; give both or neither")
        return self


class GeoKeys(Section):
    """``train.strategy.mode``."""

    push_num: Int = Field(default=100, gt=0)


class StrategyKeys(Section):
    """``train.strategy``."""

    mode: GeoKeys = GeoKeys()


class TrainKeys(Section):
    """``train``: the place where the geo strategy keeps its interval."""

    strategy: StrategyKeys = StrategyKeys()


class TopLevel(Section):
    """A job file without the content of its lists, which are decoded entry by entry."""

    workspace: PathText | None = None
    mode: Names = Field(min_length=1)
    runner: list[Any] = Field(min_length=1)
    phase: list[Any] = Field(min_length=1)
    dataset: list[Any] = Field(min_length=1)
    hyper_parameters: dict[str, Any] = Field(default_factory=dict)
    table_parameters: dict[str, Any] = Field(default_factory=dict)
    debug: bool = False
    train: TrainKeys = TrainKeys()


def comparison(text: str) -> tuple[str, str, float]:
    """Split ``click == 1``."""
    found = re.fullmatch(r"\s*(\S+)\s*(==|!=|<=|>=|<|>)\s*(\S+)\s*", text)
    try:
        if found is not None:
            return found[1], found[2], float(found[3])
    except ValueError:
        pass
    raise ValueError(f"expected a comparison such as 'click == 1', not {text!r}")


def dense_shape(slot: str) -> tuple[str, tuple[int, ...]]:
    """Split ``name:13``, ``name:3,28,28`` or ``name:[3,28,28]``."""
    found = re.fullmatch(r"(.*[^:]):(\[?)([0-9]+(?:,[0-9]+)*)(\]?)", slot)
    if found is None or bool(found[2]) != bool(found[4]) or ":" in found[1]:
        raise ValueError(f"expected name:width or name:[a,b,c], not {slot!r}")
    shape = tuple(int(part) for part in found[3].split(","))
    if not 0 < math.prod(shape) <= MAX_DENSE_WIDTH:
        raise ValueError(f"a dense slot is 1 to {MAX_DENSE_WIDTH} wide, not {slot!r}")
    return found[1], shape
