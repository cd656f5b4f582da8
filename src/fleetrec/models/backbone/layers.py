"""From the message of a layer and its first input to the layer."""

# Shape suffixes: B samples, F fields, L elements, D width, X width.

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from fleetrec.config.pipeline_dialect import layers as messages
from fleetrec.config.pipeline_dialect.keras_layer import KerasLayer
from fleetrec.models.backbone import keras_layers
from fleetrec.models.backbone.auxiliary import AuxiliaryLoss
from fleetrec.models.backbone.dense import stack_of
from fleetrec.models.backbone.sequence_layers import SEQUENCE_LAYERS
from fleetrec.models.backbone.values import Adapter, Value, fields, flat, matrix, pair, stacked
from fleetrec.nn.bi_interaction import BiInteraction
from fleetrec.nn.cin import Cin
from fleetrec.nn.dense_stack import DenseStyle, Gate, GatedStack
from fleetrec.nn.field_gates import FieldGates, PairProducts
from fleetrec.nn.fm import FactorizationMachine
from fleetrec.nn.gated_mixture import GatedMixture
from fleetrec.nn.highway import Highway
from fleetrec.nn.low_rank_cross import LowRankCross
from fleetrec.nn.mask_block import InstanceMask
from fleetrec.nn.numeric_embedding import AutoDisEmbedding, NaryDisEmbedding, PeriodicEmbedding
from fleetrec.nn.pair_dots import PairDots
from fleetrec.nn.transfer_attention import TransferAttention

Build = Callable[[Any, Value], nn.Module]


def build_layer(layer: KerasLayer, value: Value) -> nn.Module:
    """Return a new layer for inputs such as this one."""
    return BUILDERS[layer.class_name](layer.params(), value)


def _mlp(message: messages.MlpMessage, value: Value) -> nn.Module:
    return Adapter(stack_of(message, matrix(value).shape[-1]), _on_matrix)


def _highway(message: messages.HighwayMessage, value: Value) -> nn.Module:
    dim = matrix(value).shape[-1]
    layer = Highway(
        dim,
        message.emb_size or dim,
        num_layers=message.num_layers,
        act=message.activation,  # type: ignore[arg-type]
        gate_bias=message.init_gate_bias,
        dropout=message.dropout_rate,
    )
    return Adapter(layer, _on_matrix)


def _gate(message: messages.GateMessage, value: Value) -> nn.Module:
    place = message.weight_index
    if isinstance(value, Tensor) or len(value) < 2 or place >= len(value):
        raise ValueError("expected a list: weights, and the tensors that they are for")
    if value[place].shape[-1] < len(value) - 1:
        raise ValueError(f"expected {len(value) - 1} weights, got {value[place].shape[-1]}")

    def call(_: nn.Module, parts: Value) -> Tensor:
        weights_BX = parts[place]
        others = [part for number, part in enumerate(parts) if number != place]
        mixed: Tensor = sum(weights_BX[:, i, None] * part for i, part in enumerate(others))
        return mixed

    return Adapter(nn.Identity(), call)


def _numeric(
    message: messages.PeriodicMessage | messages.AutoDisMessage | messages.NaryDisMessage,
    layer: nn.Module,
) -> nn.Module:
    def call(inner: nn.Module, value: Value) -> Value:
        v_BND = inner(matrix(value))
        if message.output_tensor_list:
            return [v_BND.flatten(1), list(v_BND.unbind(dim=1))]
        return [v_BND.flatten(1), v_BND] if message.output_3d_tensor else v_BND.flatten(1)

    return Adapter(layer, call)


def _periodic(message: messages.PeriodicMessage, value: Value) -> nn.Module:
    layer = PeriodicEmbedding(
        matrix(value).shape[1],
        message.embedding_dim,
        sigma=message.sigma,
        linear=message.add_linear_layer,
        act=message.linear_activation,  # type: ignore[arg-type]
    )
    return _numeric(message, layer)


def _auto_dis(message: messages.AutoDisMessage, value: Value) -> nn.Module:
    layer = AutoDisEmbedding(
        matrix(value).shape[1],
        message.embedding_dim,
        num_bins=message.num_bins,
        keep=message.keep_prob,
        temperature=message.temperature,
    )
    return _numeric(message, layer)


def _nary_dis(message: messages.NaryDisMessage, value: Value) -> nn.Module:
    if message.num_replicas != 1:
        raise ValueError("num_replicas above 1 is not supported here")
    layer = NaryDisEmbedding(
        matrix(value).shape[1],
        message.embedding_dim,
        bases=message.carries,
        multiplier=message.multiplier,
        mean=message.intra_ary_pooling == "mean",
    )
    return _numeric(message, layer)


def _fm(message: messages.FmLayerMessage, value: Value) -> nn.Module:
    stacked(value)
    if message.use_variant:
        return Adapter(BiInteraction(), _on_stack)
    return Adapter(FactorizationMachine(), lambda fm, x: fm(stacked(x)).unsqueeze(1))


def _dot(message: messages.DotMessage, value: Value) -> nn.Module:
    layer = PairDots(
        stacked(value).shape[1], with_self=message.self_interaction, square=message.skip_gather
    )
    return Adapter(layer, _on_stack)


def _cross(message: messages.CrossMessage, value: Value) -> nn.Module:
    x0, x = pair(value)
    if x0.shape[-1] != x.shape[-1]:
        raise ValueError(f"expected inputs of one width, got {x0.shape[-1]} and {x.shape[-1]}")
    layer = LowRankCross(
        x0.shape[-1],
        rank=message.projection_dim,
        diagonal=message.diag_scale,
        bias=message.use_bias,
        act=message.preactivation,  # type: ignore[arg-type]
    )
    return Adapter(layer, _on_pair)


def _cin(message: messages.CinMessage, value: Value) -> nn.Module:
    return Adapter(Cin(stacked(value).shape[1], message.hidden_feature_sizes), _on_stack)


def _bilinear(message: messages.BilinearMessage, value: Value) -> nn.Module:
    layer = PairProducts(
        [field.shape[-1] for field in fields(value)],
        kind=message.type,
        dots=message.use_plus,
        out_dim=message.num_output_units,
    )
    return Adapter(layer, _on_fields)


def _senet(message: messages.SenetMessage, value: Value) -> nn.Module:
    layer = FieldGates(
        [field.shape[-1] for field in fields(value)],
        num_groups=message.num_squeeze_group,
        reduction_ratio=message.reduction_ratio,
        skip=message.use_skip_connection,
        norm=message.use_output_layer_norm,
    )
    return Adapter(layer, _on_fields)


def _fibinet(message: messages.FibinetMessage, value: Value) -> nn.Module:
    parts = [_senet(message.senet, value)]
    if message.bilinear is not None:
        parts.append(_bilinear(message.bilinear, value))
    width = sum(part.inner.out_dim for part in parts)  # type: ignore[union-attr, misc]
    top = nn.Identity() if message.mlp is None else stack_of(message.mlp, width)
    inner = nn.ModuleDict({"parts": nn.ModuleList(parts), "top": top})
    return Adapter(inner, _on_parts)


def _mask_block(message: messages.MaskBlockMessage, value: Value) -> nn.Module:
    x, mask_input = pair(value)
    return Adapter(_instance_mask(message, x.shape[-1], mask_input.shape[-1]), _on_pair)


def _instance_mask(message: messages.MaskBlockMessage, dim: int, mask_dim: int) -> InstanceMask:
    hidden = message.aggregation_size
    if message.reduction_factor is not None:
        hidden = max(1, int(mask_dim * message.reduction_factor))
    if hidden is None:
        raise ValueError("MaskBlock needs reduction_factor or aggregation_size")
    return InstanceMask(
        dim,
        mask_dim,
        hidden=hidden,
        out_dim=message.output_size,
        projection=message.projection_dim,
        norm_input=message.input_layer_norm,
    )


def _masknet(message: messages.MaskNetMessage, value: Value) -> nn.Module:
    dim = matrix(value).shape[-1]
    widths, blocks = [dim], []
    for block in message.mask_blocks:
        blocks.append(_instance_mask(block, dim if message.use_parallel else widths[-1], dim))
        widths.append(blocks[-1].out_dim)
    width = sum(widths[1:]) if message.use_parallel else widths[-1]
    inner = nn.ModuleDict(
        {
            "norm": nn.LayerNorm(dim, eps=1e-3) if message.input_layer_norm else nn.Identity(),
            "blocks": nn.ModuleList(blocks),
            "top": nn.Identity() if message.mlp is None else stack_of(message.mlp, width),
        }
    )

    def call(layers: nn.ModuleDict, x: Value) -> Value:
        mask_input = net = layers["norm"](matrix(x))
        if message.use_parallel:
            outs = [block(mask_input, mask_input) for block in layers["blocks"]]  # type: ignore[attr-defined]
            net = matrix(outs)
        else:
            for block in layers["blocks"]:  # type: ignore[attr-defined]
                net = block(net, mask_input)
        return layers["top"](net)

    return Adapter(inner, call)


def _ppnet(message: messages.PpnetMessage, value: Value) -> nn.Module:
    x, gate_input = pair(value)
    dim = x.shape[-1]
    gate_dim = gate_input.shape[-1] + (dim if message.full_gate_input else 0)
    options, is_lazy = message.gate_params, message.mode == "lazy"
    style = DenseStyle(
        act=options.activation,  # type: ignore[arg-type]
        batch_norm=options.use_bn,
        bias=not options.use_bn,
    )

    def gate(width: int) -> Gate:
        hidden = options.hidden_dim or width
        return Gate(gate_dim, width, hidden=hidden, style=style, dropout=options.dropout_rate)

    stack = stack_of(message.mlp, dim)
    gated = stack.dims if is_lazy else stack.dims[:-1]
    before = None if is_lazy else gate(dim)
    layer = GatedStack(stack, [gate(width) for width in gated], before=before)

    def call(inner: nn.Module, both: Value) -> Value:
        x, gate_input = pair(both)
        if message.full_gate_input:
            gate_input = matrix([x.detach(), gate_input])
        return inner(x, gate_input)

    return Adapter(layer, call)


def _mmoe(message: messages.MmoeLayerMessage, value: Value) -> nn.Module:
    count = message.num_expert
    if message.expert_mlp is None:
        if isinstance(value, Tensor) or len(value) != count + 1:
            raise ValueError(
                f"without expert_mlp, expected the outputs of {count} experts and then the input "
                "of the gates"
            )
        layer = GatedMixture(matrix(value[-1]).shape[-1], count, num_tasks=message.num_task)
        return Adapter(layer, lambda inner, x: inner.mix(stacked(list(x[:-1])), matrix(x[-1])))
    if not count:
        raise ValueError("MMoE needs num_expert of at least 1")
    dim = matrix(value).shape[-1]
    inner = nn.ModuleDict(
        {
            "experts": nn.ModuleList(stack_of(message.expert_mlp, dim) for _ in range(count)),
            "mixture": GatedMixture(dim, count, num_tasks=message.num_task),
        }
    )

    def call(layers: nn.ModuleDict, x: Value) -> Value:
        x_BX = matrix(x)
        opinions = [expert(x_BX) for expert in layers["experts"]]  # type: ignore[attr-defined]
        return layers["mixture"].mix(stacked(opinions), x_BX)  # type: ignore[operator]

    return Adapter(inner, call)


def _aitm(message: messages.AitmMessage, value: Value) -> nn.Module:
    if isinstance(value, Tensor):
        return Adapter(nn.Identity(), _on_matrix)
    own, *others = [part.shape[-1] for part in flat(value)]
    transfer = None
    if message.transfer_mlp is not None:
        if len(set(others)) > 1:
            raise ValueError(f"transfer_mlp needs inputs of one width, got {others}")
        transfer = stack_of(message.transfer_mlp, others[0])
        others = [transfer.out_dim] * len(others)
    layer = TransferAttention(
        [own, *others],
        dim=message.project_dim or own,
        transfer=transfer,
        stops=message.stop_gradient,
    )
    return Adapter(layer, lambda inner, x: inner(flat(x)))


def _auxiliary(message: messages.AuxiliaryLossMessage, value: Value) -> nn.Module:
    pair(value)
    return AuxiliaryLoss(message)


def _on_matrix(layer: nn.Module, value: Value) -> Value:
    return layer(matrix(value))


def _on_stack(layer: nn.Module, value: Value) -> Value:
    return layer(stacked(value))


def _on_fields(layer: nn.Module, value: Value) -> Value:
    return layer(fields(value))


def _on_pair(layer: nn.Module, value: Value) -> Value:
    return layer(*pair(value))


def _on_parts(layers: nn.ModuleDict, value: Value) -> Value:
    outs = [part(value) for part in layers["parts"]]  # type: ignore[attr-defined]
    return layers["top"](matrix(outs))


BUILDERS: Mapping[str, Build] = MappingProxyType(
    {
        "MLP": _mlp,
        "Highway": _highway,
        "Gate": _gate,
        "PeriodicEmbedding": _periodic,
        "AutoDisEmbedding": _auto_dis,
        "NaryDisEmbedding": _nary_dis,
        "FM": _fm,
        "DotInteraction": _dot,
        "Cross": _cross,
        "CIN": _cin,
        "BiLinear": _bilinear,
        "SENet": _senet,
        "FiBiNet": _fibinet,
        "MaskBlock": _mask_block,
        "MaskNet": _masknet,
        "PPNet": _ppnet,
        "MMoE": _mmoe,
        "AITMTower": _aitm,
        "AuxiliaryLoss": _auxiliary,
        **SEQUENCE_LAYERS,
        **keras_layers.KERAS_LAYERS,
    }
)
