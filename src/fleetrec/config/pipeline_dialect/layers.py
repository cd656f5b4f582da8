"""The messages of layers in a backbone: what each ``class_name`` of ``keras_layer`` takes.

Values of ``st_params`` are read by the same messages. Some of their defaults differ there, as in
EasyRec: these are in ``struct_defaults``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from fleetrec.config.pipeline_dialect.activations import ACTIVATIONS
from fleetrec.config.pipeline_dialect.message import Message, idle

NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})
SOFTMAX = "softmax"
INITIALIZERS = (
    "he_uniform",
    "he_normal",
    "glorot_uniform",
    "glorot_normal",
    "lecun_uniform",
    "lecun_normal",
    "truncated_normal",
    "random_normal",
    "random_uniform",
    "uniform",
    "zeros",
    "ones",
)
Initializer = Literal[INITIALIZERS]  # type: ignore[valid-type]


class LayerMessage(Message):
    """Parameters of one layer."""

    struct_defaults: ClassVar[Mapping[str, Any]] = NO_DEFAULTS

    @field_validator(
        "activation",
        "final_activation",
        "linear_activation",
        "hidden_act",
        "preactivation",
        check_fields=False,
    )
    @classmethod
    def _check_activation(cls, name: str) -> str:
        plain = name.removeprefix("tf.nn.").removeprefix("tf.") or "linear"
        if plain not in (*ACTIVATIONS, SOFTMAX):
            raise ValueError(f"expected one of {', '.join((*ACTIVATIONS, SOFTMAX))}")
        return plain


class MlpMessage(LayerMessage):
    """``mlp``."""

    hidden_units: tuple[int, ...] = Field(min_length=1)
    dropout_ratio: tuple[float, ...] = ()
    activation: str = "relu"
    use_bn: bool = True
    use_final_bn: bool = True
    final_activation: str = "relu"
    use_bias: bool = False
    initializer: Initializer = "he_uniform"
    use_bn_after_activation: bool = False
    use_final_bias: bool = False
    add_to_outputs: bool = False

    struct_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"final_activation": "linear"})

    @field_validator("hidden_units")
    @classmethod
    def _check_widths(cls, widths: tuple[int, ...]) -> tuple[int, ...]:
        if min(widths) < 1:
            raise ValueError(f"expected widths above 0, got {list(widths)}")
        return widths

    @field_validator("dropout_ratio")
    @classmethod
    def _check_ratios(cls, ratios: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 <= ratio < 1 for ratio in ratios):
            raise ValueError(f"expected ratios in [0, 1), got {list(ratios)}")
        return ratios


class HighwayMessage(LayerMessage):
    """``highway``."""

    input: str = idle(default="")
    emb_size: int | None = Field(default=None, gt=0)
    activation: str = "relu"
    dropout_rate: float = Field(default=0.0, ge=0, lt=1)
    init_gate_bias: float = -3.0
    num_layers: int = Field(default=1, gt=0)


class PeriodicMessage(LayerMessage):
    """``periodic_embedding``."""

    embedding_dim: int = Field(gt=0, multiple_of=2)
    sigma: float = Field(gt=0)
    add_linear_layer: bool = True
    linear_activation: str = "relu"
    output_3d_tensor: bool = False
    output_tensor_list: bool = False


class AutoDisMessage(LayerMessage):
    """``auto_dis_embedding``."""

    embedding_dim: int = Field(gt=0)
    num_bins: int = Field(gt=0)
    keep_prob: float = 0.8
    temperature: float = Field(gt=0)
    output_3d_tensor: bool = False
    output_tensor_list: bool = False


class NaryDisMessage(LayerMessage):
    """``NaryDisEmbedding``."""

    embedding_dim: int = Field(gt=0)
    carries: tuple[int, ...] = (2, 9)
    multiplier: float = 1.0
    intra_ary_pooling: Literal["sum", "mean"] = "sum"
    num_replicas: int = Field(default=1, gt=0)
    output_3d_tensor: bool = False
    output_tensor_list: bool = False


class SenetMessage(LayerMessage):
    """``senet``."""

    reduction_ratio: int = Field(default=4, gt=0)
    num_squeeze_group: int = Field(default=2, gt=0)
    use_skip_connection: bool = True
    use_output_layer_norm: bool = True


class BilinearMessage(LayerMessage):
    """``bilinear``."""

    type: Literal["all", "each", "interaction"] = "interaction"
    use_plus: bool = True
    num_output_units: int = Field(gt=0)


class FibinetMessage(LayerMessage):
    """``fibinet``."""

    bilinear: BilinearMessage | None = None
    senet: SenetMessage = SenetMessage()
    mlp: MlpMessage | None = None


class MaskBlockMessage(LayerMessage):
    """``mask_block``."""

    reduction_factor: float | None = Field(default=None, gt=0)
    output_size: int | None = Field(default=None, gt=0)
    aggregation_size: int | None = Field(default=None, gt=0)
    input_layer_norm: bool = False
    projection_dim: int | None = Field(default=None, gt=0)


class MaskNetMessage(LayerMessage):
    """``masknet``."""

    mask_blocks: tuple[MaskBlockMessage, ...] = Field(min_length=1)
    use_parallel: bool = True
    mlp: MlpMessage | None = None
    input_layer_norm: bool = True


class MmoeLayerMessage(LayerMessage):
    """``mmoe``."""

    num_task: int = Field(gt=0)
    expert_mlp: MlpMessage | None = None
    num_expert: int = Field(default=0, ge=0)


class GateNnMessage(LayerMessage):
    """``gate_params``."""

    output_dim: int | None = Field(default=None, gt=0)
    hidden_dim: int | None = Field(default=None, gt=0)
    activation: str = "relu"
    use_bn: bool = False
    dropout_rate: float = Field(default=0.0, ge=0, lt=1)


class PpnetMessage(LayerMessage):
    """``ppnet``."""

    mlp: MlpMessage
    gate_params: GateNnMessage = GateNnMessage()
    mode: Literal["eager", "lazy"] = "eager"
    full_gate_input: bool = True

    struct_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"mode": "lazy"})


class TextCnnMessage(LayerMessage):
    """``text_cnn``."""

    filter_sizes: tuple[int, ...] = Field(min_length=1)
    num_filters: tuple[int, ...] = Field(min_length=1)
    pad_sequence_length: int = Field(default=0, ge=0)
    activation: str = "relu"
    mlp: MlpMessage | None = None


class FmLayerMessage(LayerMessage):
    """``fm``."""

    use_variant: bool = False
    l2_regularization: float = idle(default=1e-4)


class CinMessage(LayerMessage):
    """``cin``."""

    hidden_feature_sizes: tuple[int, ...] = Field(min_length=1)


class CrossMessage(LayerMessage):
    """``Cross``."""

    projection_dim: int | None = Field(default=None, gt=0)
    diag_scale: float = Field(default=0.0, ge=0)
    use_bias: bool = True
    preactivation: str = "linear"


class DotMessage(LayerMessage):
    """``DotInteraction``."""

    self_interaction: bool = False
    skip_gather: bool = False


class DinMessage(LayerMessage):
    """``din``."""

    attention_dnn: MlpMessage
    need_target_feature: bool = True
    attention_normalizer: Literal["softmax", "sigmoid"] = "softmax"


class BstMessage(LayerMessage):
    """``bst``."""

    hidden_size: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = Field(default=0.1, ge=0, lt=1)
    attention_probs_dropout_prob: float = Field(default=0.1, ge=0, lt=1)
    max_position_embeddings: int = Field(default=512, gt=0)
    use_position_embeddings: bool = True
    initializer_range: float = Field(default=0.02, gt=0)
    output_all_token_embeddings: bool = True
    target_item_position: Literal["head", "tail", "ignore"] = "head"
    reserve_target_position: bool = True


class SeqAugmentMessage(LayerMessage):
    """``seq_aug``."""

    mask_rate: float = Field(default=0.6, ge=0, le=1)
    crop_rate: float = Field(default=0.2, ge=0, le=1)
    reorder_rate: float = Field(default=0.6, ge=0, le=1)


class AttentionMessage(LayerMessage):
    """``attention``."""

    use_scale: bool = False
    scale_by_dim: bool = False
    score_mode: Literal["dot", "concat"] = "dot"
    dropout: float = Field(default=0.0, ge=0, lt=1)
    seed: int = idle(default=0)
    return_attention_scores: bool = False
    use_causal_mask: bool = False


class MultiHeadMessage(LayerMessage):
    """``multi_head_attention``."""

    num_heads: int = Field(gt=0)
    key_dim: int = Field(gt=0)
    value_dim: int | None = Field(default=None, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    use_bias: bool = True
    use_causal_mask: bool = False
    output_shape: int | None = Field(default=None, gt=0)
    kernel_initializer: Initializer = "glorot_uniform"


class AitmMessage(LayerMessage):
    """``AITMTower``."""

    project_dim: int | None = Field(default=None, gt=0)
    stop_gradient: bool = True
    transfer_mlp: MlpMessage | None = None


class AuxiliaryLossMessage(LayerMessage):
    """``AuxiliaryLoss``."""

    loss_type: Literal["l2_loss", "info_nce", "nce_loss"]
    loss_weight: float = Field(default=1.0, ge=0)
    temperature: float = Field(default=0.1, gt=0)


class GateMessage(LayerMessage):
    """``Gate``."""

    weight_index: int = Field(default=0, ge=0)
