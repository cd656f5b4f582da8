"""``feature_config``: how columns become features."""

from typing import ClassVar, Literal

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message, Opaque, idle, later

FeatureType = Literal[
    "IdFeature",
    "RawFeature",
    "TagFeature",
    "ComboFeature",
    "LookupFeature",
    "SequenceFeature",
    "ExprFeature",
    "PassThroughFeature",
]


class NormalInitializer(Message):
    """A normal distribution."""

    mean: float = 0.0
    stddev: float = Field(default=1.0, ge=0)


class GlorotNormalInitializer(Message):
    """A normal distribution that suits the size of the table."""


class ConstantInitializer(Message):
    """A number."""

    consts: tuple[float, ...] = Field(default=(), min_length=1, max_length=1)


class Initializer(Message):
    """One of the distributions of first rows."""

    truncated_normal_initializer: NormalInitializer | None = None
    random_normal_initializer: NormalInitializer | None = None
    glorot_normal_initializer: GlorotNormalInitializer | None = None
    constant_initializer: ConstantInitializer | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "truncated_normal_initializer",
            "random_normal_initializer",
            "glorot_normal_initializer",
            "constant_initializer",
        ),
    )


class EmbeddingVariable(Message):
    """``ev_params``: a table that grows."""

    filter_freq: int = Field(default=0, ge=0, le=65535)
    steps_to_live: int = idle(default=0)
    use_cache: bool = idle(default=False)
    init_capacity: int = idle(default=8388608)
    max_capacity: int = idle(default=16777216)


class Attention(Message):
    """A softmax over the elements, from one weight per dimension."""


class TextCnn(Message):
    """Convolutions of several sizes, pooled by their maximum."""

    filter_sizes: tuple[int, ...] = ()
    num_filters: tuple[int, ...] = ()


class SequenceCombiner(Message):
    """How the elements of a sequence become one vector."""

    attention: Attention | None = None
    multi_head_attention: Opaque | None = later()
    text_cnn: TextCnn | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("attention", "multi_head_attention", "text_cnn"),
    )


class FeatureConfig(Message):
    """One feature."""

    feature_name: str = ""
    input_names: tuple[str, ...] = Field(default=(), min_length=1)
    feature_type: FeatureType = "IdFeature"
    embedding_name: str = ""
    embedding_dim: int = Field(default=0, ge=0)
    hash_bucket_size: int = Field(default=0, ge=0)
    num_buckets: int = Field(default=0, ge=0)
    boundaries: tuple[float, ...] = ()
    separator: str = Field(default="|", min_length=1)
    kv_separator: str = ""
    seq_multi_sep: str = ""
    max_seq_len: int | None = Field(default=None, gt=0)
    vocab_file: str = ""
    vocab_list: tuple[str, ...] = ()
    shared_names: tuple[str, ...] = ()
    lookup_max_sel_elem_num: int = Field(default=10, gt=0)
    max_partitions: int = idle(default=1)
    combiner: Literal["sum", "mean", "sqrtn"] = "sum"
    initializer: Initializer | None = None
    precision: int = Field(default=-1, ge=-1)
    min_val: float = 0.0
    max_val: float = 0.0
    normalizer_fn: str = ""
    raw_input_dim: int = Field(default=1, gt=0)
    sequence_combiner: SequenceCombiner | None = None
    sub_feature_type: Literal["IdFeature", "RawFeature"] = "IdFeature"
    sequence_length: int = Field(default=1, gt=0)
    expression: str = ""
    ev_params: EmbeddingVariable | None = None
    combo_join_sep: str = ""
    combo_input_seps: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return what groups call the feature."""
        return self.feature_name or self.input_names[0]


class FeatureConfigs(Message):
    """The features, in the newer place."""

    features: tuple[FeatureConfig, ...] = ()
    embedding_on_cpu: bool = idle(default=False)
