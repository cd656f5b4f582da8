"""The typed configuration of a job, the same for both dialects, complete and checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny

from fleetrec.config.features import ColumnOptions, FeatureOptions, IdRule
from fleetrec.config.online import OnlineOptions
from fleetrec.config.options import Options, Url, to_text
from fleetrec.config.rules import InferenceOptions, ResumeOptions, Rule, WarmStartOptions
from fleetrec.config.samplers import SamplerOptions
from fleetrec.config.schedules import ScheduleOptions
from fleetrec.config.tables import TableOverrides

# Progress lines by batches of an epoch, as PaddleRec's, or by steps of the run, as EasyRec's.
LogStyle = Literal["epochs", "steps"]

# As in torch. ``high``: each float32 split into two bfloat16; ``medium``: rounded to one.
MatmulPrecision = Literal["highest", "high", "medium"]

OptimizerName = Literal[
    "sgd",
    "adam",
    "adagrad",
    "momentum",
    "momentumw",
    "lazy_adam",
    "lazy_adamw",
    "rmsprop_momentum",
    "ftrl_power",
]


class OptimizerOptions(Options):
    """The optimizer of the dense network and of the tables.

    ``settings`` are the hyper-parameters that differ from the defaults. With a ``schedule`` the
    learning rate follows the step, and ``lr`` is its initial value.
    """

    name: OptimizerName = "adam"
    lr: float = Field(default=0.001, ge=0)
    settings: Mapping[str, float] = Field(default_factory=dict)
    schedule: ScheduleOptions | None = None


class UpdateOptions(Options):
    """Gradient clipping, frozen variables, and several optimizers.

    With several ``optimizers`` the model assigns one to each variable. ``frozen`` are
    patterns of variable names. ``clip_norm`` bounds the global gradient norm; 0: off.
    """

    optimizers: tuple[OptimizerOptions, ...] = ()
    clip_norm: float = Field(default=0.0, ge=0)
    embedding_gradient_scale: float = Field(default=1.0, gt=0)
    frozen: tuple[str, ...] = ()


class DenseSlot(Options):
    """A dense feature of fixed shape."""

    name: str
    shape: tuple[int, ...]


class TextTableOptions(Options):
    """How text is cut into columns, and a cell into several values.

    Without ``columns`` the first line of a file names them. ``weight_separator`` separates an id
    from its weight within a cell.
    """

    separator: str = ","
    quote: str = '"'
    columns: tuple[str, ...] = ()
    list_separator: str = "|"
    weight_separator: str | None = None


class Filter(Options):
    """Keeps samples whose feature satisfies a comparison; for a list of ids, if any id does."""

    feature: str
    op: Literal["==", "!=", "<", "<=", ">", ">="]
    value: float


class ReaderOptions(Options):
    """A custom reader: a class in a file, and the settings that it can read."""

    path: Path
    class_name: str = "Reader"
    settings: Mapping[str, Any] = Field(default_factory=dict)


class BadRowOptions(Options):
    """How to handle rows that cannot be parsed; a run fails after ``limit`` skipped rows."""

    policy: Literal["raise", "skip"] = "raise"
    limit: int = Field(default=1000, ge=0)


class RtpOptions(Options):
    """The outer columns of RTP text: their separator, and which hold labels, and last features."""

    separator: str = Field(default=";", min_length=1)
    selected: tuple[int, ...] = Field(min_length=1)


class CriteoFiles(Options):
    """Binary files of numbers and categories, in the order of those of labels."""

    dense_paths: tuple[str, ...] = Field(min_length=1)
    category_paths: tuple[str, ...] = Field(min_length=1)


class DatasetOptions(Options):
    """Files and how to read them.

    ``format`` is the name of a source; without it the suffix of the files decides; files of unknown
    suffix are slot text. ``shuffle_rows`` is the number of samples that are shuffled together.
    Without a ``thread_num`` the loader decides how many threads read and decode. With ``features``,
    sparse and dense features are computed from ``columns`` as declared; otherwise each is the
    column or slot of its name.
    """

    name: str
    kind: Literal["DataLoader", "QueueDataset", "InMemoryDataset"] = "DataLoader"
    data_path: Annotated[str, BeforeValidator(to_text)]
    more_paths: tuple[str, ...] = ()
    batch_size: int = Field(gt=0)
    sparse: tuple[str, ...] = ()
    dense: tuple[DenseSlot, ...] = ()
    padding: int = 0
    thread_num: int | None = Field(default=None, gt=0)
    shuffle_files: bool = False
    shuffle_rows: int = Field(default=0, ge=0)
    format: str | None = None
    text_table: TextTableOptions = TextTableOptions()
    id_rules: Mapping[str, IdRule] = Field(default_factory=dict)
    columns: tuple[ColumnOptions, ...] = ()
    features: tuple[FeatureOptions, ...] = ()
    pipe_command: str | None = None
    reader: ReaderOptions | None = None
    bad_rows: BadRowOptions = BadRowOptions()
    filters: tuple[Filter, ...] = ()
    sample_ratio: float = Field(default=1.0, gt=0, le=1)
    sample_weight: str | None = None
    sampler: SamplerOptions | None = None
    rtp: RtpOptions | None = None
    criteo: CriteoFiles | None = None
    rows_per_record: int | None = Field(default=None, gt=0)
    # Of the client of a stream; passwords, so that they are written nowhere.
    stream_options: tuple[tuple[str, str], ...] = Field(default=(), exclude=True, repr=False)


class PhaseOptions(Options):
    """One model on one data set; ``tables`` changes those of the model, by name or ``default``."""

    name: str
    model_path: Path
    model: SerializeAsAny[Options]
    optimizer: OptimizerOptions | None
    update: UpdateOptions = UpdateOptions()
    dataset: DatasetOptions
    tables: Mapping[str, TableOverrides] = Field(default_factory=dict)


class EvaluationOptions(Options):
    """Data on which a model is evaluated while it trains; all of it, or some samples."""

    dataset: DatasetOptions
    num_samples: int | None = Field(default=None, gt=0)


class DeviceOptions(Options):
    """The device of the dense network, and the minimum precision of matrix products."""

    kind: Literal["cpu", "gpu"] = "cpu"
    gpus: tuple[int, ...] = (0,)
    matmul_precision: MatmulPrecision = "highest"


class CommunicatorOptions(Options):
    """How a worker sends gradients to the servers.

    ``send_queue_size`` steps may wait in ``async``; up to ``max_merge_var_num`` of them are sent as
    one, summed under SGD (or if ``is_sgd_optimizer`` says so) and averaged otherwise.
    ``half_async`` always merges this number of steps. The dense network is pulled again after
    ``max_send_grad_num_before_recv`` steps. Up to ``thread_pool_size`` servers are called at a
    time; a call is retried after ``rpc_deadline_s``. With ``pull_ahead``, the rows of the next
    batch are pulled while the current one is computed.
    """

    send_queue_size: int = Field(default=1, gt=0)
    max_merge_var_num: int = Field(default=1, gt=0)
    max_send_grad_num_before_recv: int = Field(default=1, gt=0)
    thread_pool_size: int = Field(default=5, gt=0)
    is_sgd_optimizer: bool = False
    rpc_deadline_s: float = Field(default=180.0, gt=0)
    pull_ahead: bool = False


class ClusterOptions(Options):
    """The number of processes by role, and how they synchronise weights.

    Without servers (``collective``) every rank holds all rows of a ``replicated`` table, and a
    share of those of a ``sharded`` one. ``auto`` replicates tables of fixed size up to 64 MiB.
    """

    num_workers: int = Field(default=1, gt=0)
    num_servers: int = Field(default=1, gt=0)
    fleet_mode: Literal["ps", "collective", "pslib"] = "ps"
    placement: Literal["auto", "replicated", "sharded"] = "auto"
    rank_timeout_s: float = Field(default=300, gt=0)
    exchange_ahead: bool = False  # ids of the next batch are sent while the current one is computed
    strategy: Literal["async", "sync", "half_async", "geo"] = "async"
    geo_push_steps: int = Field(default=100, gt=0)
    max_restarts: int = Field(default=3, ge=0)  # of each process, on one machine
    communicator: CommunicatorOptions = CommunicatorOptions()


CLIPPED_IN_SYNC = (
    "clipping by norm with distribute_strategy: sync needs the norm of the mean gradient of all "
    "workers, of which every server holds only a part; use async (each worker clips its own "
    "gradient), one worker, or fleet_mode: collective"
)


def needs_whole_gradient(update: UpdateOptions, cluster: ClusterOptions, num_workers: int) -> bool:
    """Return whether an update needs the gradient of all workers, which no server holds whole.

    Clipping by norm in ``sync`` needs the norm of their mean gradient.
    """
    return update.clip_norm > 0 and cluster.strategy == "sync" and num_workers > 1


class RunOptions(Options):
    """One entry of ``mode``: a training or an inference.

    A training ends after ``num_epochs`` (None: never) or ``num_steps``, whichever comes first. One
    checkpoint in ``checkpoint_base_interval`` holds whole tables, the others what has changed. With
    ``online`` it makes passes over data that arrives, instead of epochs.
    """

    name: str
    kind: Literal["train", "infer"]
    engine: Literal["single", "local_cluster", "cluster"] = "single"
    device: DeviceOptions = DeviceOptions()
    cluster: ClusterOptions = ClusterOptions()
    phases: tuple[PhaseOptions, ...]
    num_epochs: int | None = Field(default=1, gt=0)
    num_steps: int | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0)
    rules: tuple[Rule, ...] = ()
    checkpoint_base_interval: int = Field(default=1, gt=0)
    inference: InferenceOptions = InferenceOptions()
    resume: ResumeOptions = ResumeOptions()
    warm_start: WarmStartOptions = WarmStartOptions()
    print_interval: int = Field(default=20, gt=0)
    log_style: LogStyle = "epochs"
    dump_path: Url | None = None
    show_costs: bool = False
    evaluation: EvaluationOptions | None = None
    summary_interval: int | None = Field(default=None, gt=0)
    online: OnlineOptions | None = None


class Job(Options):
    """A job file: runs in the order in which they happen.

    ``folder`` is where runs write logs and metrics; None: each in its own folder below
    ``--log-dir``. ``files`` are written there when a run begins, by name. ``fields`` of a pipeline
    are those that it gives, and whether they are honoured, differ in meaning, or are ignored.
    """

    source: Path
    workspace: Path
    runs: tuple[RunOptions, ...]
    notices: tuple[str, ...] = ()
    fields: Mapping[str, str] = Field(default_factory=dict)
    folder: Url | None = None
    files: Mapping[str, str] = Field(default_factory=dict)
