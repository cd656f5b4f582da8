"""The keys of the YAML dialect, as job files spell them."""

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from fleetrec.config.options import Options

RunnerClass = Literal[
    "train",
    "single_train",
    "infer",
    "single_infer",
    "local_cluster",
    "local_cluster_train",
    "cluster",
    "cluster_train",
]


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def forward_slashes(value: Any) -> Any:
    """Let files written on Windows run here."""
    return value.replace("\\", "/") if isinstance(value, str) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else forward_slashes(value)


def _words(value: Any) -> Any:
    """Split ``"click 1 2"``; a single number is a name too."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return value.split() if isinstance(value, str) else value


Gpu = Annotated[int, Field(ge=0)]
FileName = Annotated[str, Field(pattern=r"^[^/.][^/]*$")]  # it becomes the name of a folder
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
PathText = Annotated[str, BeforeValidator(forward_slashes)]
MaybePath = Annotated[str | None, BeforeValidator(_none_if_empty)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class Dataset(Options):
    """An entry of ``dataset``."""

    name: str
    type: Literal["DataLoader", "QueueDataset"]
    batch_size: int | None = Field(default=None, gt=0)
    data_path: PathText
    sparse_slots: Words = ()
    dense_slots: Words = ()
    padding: int = Field(default=0, ge=-(2**63), lt=2**63)
    data_converter: MaybePath = None
    reader_class_name: str = "Reader"

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


class Phase(Options):
    """An entry of ``phase``."""

    name: FileName
    model: PathText
    dataset_name: str
    thread_num: int = Field(default=1, gt=0)
    gradient_scale_strategy: Literal[0, 1, 2] = 0
    shuffle_filelist: bool = False


class Runner(Options):
    """An entry of ``runner``."""

    name: FileName
    runner_class: Annotated[RunnerClass, BeforeValidator(_lower)] = Field(alias="class")
    device: Annotated[Literal["cpu", "gpu"], BeforeValidator(_lower)] = "cpu"
    selected_gpus: tuple[Gpu, ...] = Field(default=(0,), min_length=1)
    fleet_mode: Annotated[Literal["ps", "collective", "pslib"], BeforeValidator(_lower)] = "ps"
    distribute_strategy: Literal["async", "sync", "half_async", "geo"] = "async"
    worker_num: int = Field(default=1, gt=0)
    server_num: int = Field(default=1, gt=0)
    epochs: int | None = Field(default=None, gt=0)
    phases: Names = ()
    init_model_path: MaybePath = None
    init_pretraining_model_path: MaybePath = None
    save_checkpoint_interval: int = Field(default=-1, ge=-1)
    save_checkpoint_path: MaybePath = None
    save_inference_interval: int = Field(default=-1, ge=-1)
    save_inference_path: MaybePath = None
    save_inference_feed_varnames: Names = ()
    save_inference_fetch_varnames: Names = ()
    save_step_interval: int = Field(default=-1, ge=-1)
    save_step_path: MaybePath = None
    print_interval: int = Field(default=20, gt=0)
    runner_result_dump_path: MaybePath = None
    instance_class_path: MaybePath = None
    network_class_path: MaybePath = None
    startup_class_path: MaybePath = None
    runner_class_path: MaybePath = None
    terminal_class_path: MaybePath = None
    trainer_class: str = "GeneralTrainer"
    finetuning_aspect_varnames: Names = ()
    load_vars: Names = ()
    seed: int = Field(default=0, ge=0, lt=2**63)

    @field_validator("selected_gpus", mode="before")
    @classmethod
    def _split_gpus(cls, value: Any) -> Any:
        """Accept ``0``, ``"0"``, ``"0,1"`` and ``[0, 1]``."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",")]
        return [value] if isinstance(value, int) else value


class OptimizerKeys(Options):
    """``hyper_parameters.optimizer``."""

    optimizer_class: Annotated[Literal["sgd", "adam", "adagrad"], BeforeValidator(_lower)] = Field(
        default="adam", alias="class"
    )
    learning_rate: float = Field(default=0.001, gt=0)
    strategy: str | None = None

    @field_validator("learning_rate")
    @classmethod
    def _check_finite(cls, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError("expected a finite number")
        return value


class GeoKeys(Options):
    """``train.strategy.mode``."""

    push_num: int = Field(default=100, gt=0)


class StrategyKeys(Options):
    """``train.strategy``."""

    mode: GeoKeys = GeoKeys()


class TrainKeys(Options):
    """``train``: the place where the geo strategy keeps its interval."""

    strategy: StrategyKeys = StrategyKeys()


class TopLevel(Options):
    """A job file without the insides of its lists, which are decoded entry by entry."""

    workspace: PathText | None = None
    mode: Names = Field(min_length=1)
    runner: list[Any] = Field(min_length=1)
    phase: list[Any] = Field(min_length=1)
    dataset: list[Any] = Field(min_length=1)
    hyper_parameters: dict[str, Any] = Field(default_factory=dict)
    debug: bool = False
    train: TrainKeys = TrainKeys()


def dense_shape(slot: str) -> tuple[str, tuple[int, ...]]:
    """Split ``name:13``, ``name:3,28,28`` or ``name:[3,28,28]``."""
    name, colon, shape = slot.rpartition(":")
    parts = shape.strip("[]").split(",")
    is_shape = all(part.isdecimal() and int(part) > 0 for part in parts)
    if not (name and colon and is_shape) or ":" in name:
        raise ValueError(f"expected name:width or name:[a,b,c], not {slot!r}")
    return name, tuple(int(part) for part in parts)
