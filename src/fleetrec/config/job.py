"""The one typed configuration behind every front door: what shall be run, complete and checked."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SerializeAsAny

from fleetrec.config.options import Options

OptimizerName = Literal["sgd", "adam", "adagrad"]


class OptimizerOptions(Options):
    """How weights move, in the dense network and in the tables alike."""

    name: OptimizerName = "adam"
    lr: float = Field(default=0.001, gt=0)


class DenseSlot(Options):
    """A dense feature of fixed shape."""

    name: str
    shape: tuple[int, ...]


class DatasetOptions(Options):
    """Files of slot text and how to read them."""

    name: str
    kind: Literal["DataLoader", "QueueDataset"] = "DataLoader"
    data_path: Path
    batch_size: int = Field(gt=0)
    sparse: tuple[str, ...] = ()
    dense: tuple[DenseSlot, ...] = ()
    padding: int = 0
    thread_num: int = Field(default=1, gt=0)
    shuffle_files: bool = False


class PhaseOptions(Options):
    """One model on one data set."""

    name: str
    model_path: Path
    model: SerializeAsAny[Options]
    optimizer: OptimizerOptions | None
    dataset: DatasetOptions


class SaveOptions(Options):
    """What a training run leaves behind, and when. Intervals of 0 mean: only at the end."""

    checkpoint_path: Path | None = None
    checkpoint_interval: int = Field(default=1, ge=0)
    checkpoint_base_interval: int = Field(default=1, gt=0)
    inference_path: Path | None = None
    inference_interval: int = Field(default=1, ge=0)
    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    step_path: Path | None = None
    step_interval: int = Field(default=0, ge=0)


class WarmStartOptions(Options):
    """Where weights come from before the first step."""

    path: Path | None = None
    partial_path: Path | None = None
    variables: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()


class DeviceOptions(Options):
    """Where the dense network computes."""

    kind: Literal["cpu", "gpu"] = "cpu"
    gpus: tuple[int, ...] = (0,)


class ClusterOptions(Options):
    """How many processes of which role, and how they agree on the weights."""

    num_workers: int = Field(default=1, gt=0)
    num_servers: int = Field(default=1, gt=0)
    fleet_mode: Literal["ps", "collective", "pslib"] = "ps"
    strategy: Literal["async", "sync", "half_async", "geo"] = "async"
    geo_push_steps: int = Field(default=100, gt=0)


class RunOptions(Options):
    """One entry of ``mode``: a training or an inference."""

    name: str
    kind: Literal["train", "infer"]
    engine: Literal["single", "local_cluster", "cluster"] = "single"
    device: DeviceOptions = DeviceOptions()
    cluster: ClusterOptions = ClusterOptions()
    phases: tuple[PhaseOptions, ...]
    num_epochs: int = Field(default=1, gt=0)
    seed: int = Field(default=0, ge=0)
    save: SaveOptions = SaveOptions()
    warm_start: WarmStartOptions = WarmStartOptions()
    print_interval: int = Field(default=20, gt=0)
    dump_path: Path | None = None
    show_costs: bool = False


class Job(Options):
    """A job file: runs in the order in which they happen."""

    source: Path
    workspace: Path
    runs: tuple[RunOptions, ...]
    notices: tuple[str, ...] = ()
