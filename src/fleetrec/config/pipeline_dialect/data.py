"""``data_config``: columns, labels, batches."""

from typing import ClassVar, Literal

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message, idle
from fleetrec.config.pipeline_dialect.samplers import (
    HardNegativeSampler,
    HardNegativeSamplerV2,
    NegativeSampler,
    NegativeSamplerV2,
    Sampler,
)

FieldType = Literal["STRING", "INT32", "INT64", "FLOAT", "DOUBLE", "BOOL"]
InputType = Literal[
    "CSVInput",
    "CSVInputV2",
    "CSVInputEx",
    "OdpsInput",
    "OdpsInputV2",
    "OdpsInputV3",
    "DataHubInput",
    "RTPInput",
    "RTPInputV2",
    "OdpsRTPInput",
    "OdpsRTPInputV2",
    "TFRecordInput",
    "BatchTFRecordInput",
    "DummyInput",
    "KafkaInput",
    "HiveInput",
    "HiveRTPInput",
    "HiveParquetInput",
    "ParquetInput",
    "ParquetInputV2",
    "ParquetInputV3",
    "CriteoInput",
]
SAMPLERS = (
    "negative_sampler",
    "negative_sampler_v2",
    "negative_sampler_in_memory",
    "hard_negative_sampler",
    "hard_negative_sampler_v2",
)


class InputField(Message):
    """A column of the data."""

    input_name: str
    input_type: FieldType = "STRING"
    default_val: str | None = None
    input_dim: int = idle(default=1)
    input_shape: int = idle(default=1)
    user_define_fn: str = ""
    user_define_fn_path: str = ""
    user_define_fn_res_type: FieldType | None = None
    ignore_val: str = idle(default="")


class LabelFunction(Message):
    """A label that is computed from columns."""

    label_name: str
    label_func: str


class DataConfig(Message):
    """Where samples come from and how they are batched."""

    batch_size: int = Field(default=32, gt=0)
    eval_batch_size: int = idle(default=4096)
    drop_remainder: bool = idle(default=False)
    input_fields: tuple[InputField, ...] = ()
    auto_expand_input_fields: bool = False
    label_fields: tuple[str, ...] = ()
    label_sep: tuple[str, ...] = ()
    label_dim: tuple[int, ...] = ()
    extra_label_func: tuple[LabelFunction, ...] = ()
    shuffle: bool = True
    shuffle_buffer_size: int = Field(default=32, gt=0)
    num_epochs: int = Field(default=0, ge=0)
    prefetch_size: int = idle(default=32)
    num_parallel_calls: int = idle(default=8)
    input_type: InputType = "CSVInput"
    separator: str = Field(default=",", min_length=1)
    rtp_separator: str = Field(default=";", min_length=1)
    selected_cols: str = ""
    selected_col_types: str = idle(default="")
    shard: bool = idle(default=False)
    file_shard: bool = idle(default=False)
    chief_redundant: bool = False
    pai_worker_queue: bool = idle(default=False)
    pai_worker_slice_num: int = idle(default=100)
    sample_weight: str = ""
    ignore_error: bool = False
    data_compression_type: str = ""
    n_data_batch_tfrecord: int | None = Field(default=None, gt=0)
    with_header: bool = False
    feature_fields: tuple[str, ...] = idle(default=())
    negative_sampler: NegativeSampler | None = None
    negative_sampler_v2: NegativeSamplerV2 | None = None
    negative_sampler_in_memory: NegativeSampler | None = None
    hard_negative_sampler: HardNegativeSampler | None = None
    hard_negative_sampler_v2: HardNegativeSamplerV2 | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (SAMPLERS,)

    @property
    def sampler(self) -> tuple[str, Sampler] | None:
        """Return the sampler of negatives and its field; None without one."""
        found = ((name, getattr(self, name)) for name in SAMPLERS)
        return next(((name, one) for name, one in found if one is not None), None)
