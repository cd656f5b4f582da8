"""Layers over sequences: builders as in ``layers``."""

# Shape suffixes: B samples, L elements, D width, X width.

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from fleetrec.config.pipeline_dialect import layers as messages
from fleetrec.models.backbone.dense import stack_of
from fleetrec.models.backbone.values import Adapter, Value, sequence
from fleetrec.nn.behaviour_transformer import BehaviourTransformer, Place, TransformerSize
from fleetrec.nn.dot_attention import DotAttention, HeadsAttention
from fleetrec.nn.encoder_block import EncoderDropout
from fleetrec.nn.interest_attention import InterestAttention
from fleetrec.nn.sequence_augment import SequenceAugment
from fleetrec.nn.text_cnn import TextCnn


def _din(message: messages.DinMessage, value: Value) -> nn.Module:
    found = sequence(value)
    if found.target_BX is None:
        raise ValueError("DIN needs a target: features of the group that are not sequences")
    changes = {"use_final_bn": False, "use_final_bias": True, "final_activation": "linear"}
    scorer = stack_of(message.attention_dnn.model_copy(update=changes), 4 * found.x_BLD.shape[2])
    if scorer.out_dim != 1:
        raise ValueError(f"attention_dnn must end in width 1, got {scorer.out_dim}")
    layer = InterestAttention(scorer, normalizer=message.attention_normalizer)

    def call(attention: nn.Module, x: Value) -> Value:
        parts = sequence(x)
        pooled_BX = attention(parts.target_BX, parts.x_BLD, parts.mask_BL)
        if not message.need_target_feature:
            return pooled_BX
        assert parts.target_BX is not None
        return torch.cat([pooled_BX, parts.target_BX], dim=1)

    return Adapter(layer, call)


def _bst(message: messages.BstMessage, value: Value) -> nn.Module:
    found = sequence(value)
    dim = found.x_BLD.shape[2]
    places: dict[str, Place] = {"head": "head", "tail": "tail", "ignore": "none"}
    target: Place = "none" if found.target_BX is None else places[message.target_item_position]
    if target != "none" and found.target_BX is not None and found.target_BX.shape[1] != dim:
        raise ValueError(
            f"BST: the target has width {found.target_BX.shape[1]}, the sequences {dim}; choose "
            'equal ones, or target_item_position: "ignore"'
        )
    has_free_place = target == "none" and message.reserve_target_position
    layer = BehaviourTransformer(
        dim,
        size=TransformerSize(
            hidden=message.hidden_size,
            num_layers=message.num_hidden_layers,
            num_heads=message.num_attention_heads,
            intermediate=message.intermediate_size,
            act=message.hidden_act,  # type: ignore[arg-type]
            dropout=EncoderDropout(
                output=message.hidden_dropout_prob,
                attention=message.attention_probs_dropout_prob,
                hidden=message.hidden_dropout_prob,
            ),
        ),
        length=message.max_position_embeddings + has_free_place,
        target=target,
        positions=message.use_position_embeddings,
        all_positions=message.output_all_token_embeddings,
    )

    def call(encoder: nn.Module, x: Value) -> Value:
        parts = sequence(x)
        return encoder(parts.x_BLD, parts.mask_BL, parts.target_BX)

    return Adapter(layer, call)


def _augment(message: messages.SeqAugmentMessage, value: Value) -> nn.Module:
    layer = SequenceAugment(
        sequence(value).x_BLD.shape[2],
        mask_rate=message.mask_rate,
        crop_rate=message.crop_rate,
        reorder_rate=message.reorder_rate,
    )

    def call(augment: nn.Module, x: Value) -> Value:
        parts = sequence(x)
        return list(augment(parts.x_BLD, parts.lengths_B))

    return Adapter(layer, call)


def _text_cnn(message: messages.TextCnnMessage, value: Value) -> nn.Module:
    cnn = TextCnn(
        sequence(value).x_BLD.shape[2],
        filter_sizes=message.filter_sizes,
        num_filters=message.num_filters,
        length=message.pad_sequence_length,
        act=message.activation,  # type: ignore[arg-type]
    )
    top = nn.Identity() if message.mlp is None else stack_of(message.mlp, cnn.out_dim)
    inner = nn.ModuleDict({"cnn": cnn, "top": top})

    def call(layers: nn.ModuleDict, x: Value) -> Value:
        parts = sequence(x)
        return layers["top"](layers["cnn"](parts.x_BLD, parts.mask_BL))

    return Adapter(inner, call)


def _three(value: Value) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, value and key; the key is the value unless it is given."""
    if isinstance(value, Tensor):
        return value, value, value
    if not 2 <= len(value) <= 3:
        raise ValueError("expected a list of query, value and maybe key")
    query, found, *key = value
    return query, found, (key[0] if key else found)


def _attention(message: messages.AttentionMessage, value: Value) -> nn.Module:
    query, _, key = _three(value)
    if message.score_mode == "dot" and query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key differ in width: {query.shape[-1]}, {key.shape[-1]}")
    layer = DotAttention(
        key.shape[-1],
        learns_scale=message.use_scale,
        scales_by_dim=message.scale_by_dim,
        adds=message.score_mode == "concat",
        dropout=message.dropout,
        causal=message.use_causal_mask,
    )
    return_scores = message.return_attention_scores

    def call(attention: nn.Module, x: Value) -> Value:
        found, scores = attention(*_three(x))
        return [found, scores] if return_scores else found

    return Adapter(layer, call)


def _heads(message: messages.MultiHeadMessage, value: Value) -> nn.Module:
    query, found, key = _three(value)
    layer = HeadsAttention(
        (query.shape[-1], found.shape[-1], key.shape[-1]),
        num_heads=message.num_heads,
        key_dim=message.key_dim,
        value_dim=message.value_dim or message.key_dim,
        out_dim=message.output_shape or query.shape[-1],
        bias=message.use_bias,
        dropout=message.dropout,
        causal=message.use_causal_mask,
    )
    return Adapter(layer, lambda attention, x: attention(*_three(x)))


SEQUENCE_LAYERS: Mapping[str, Callable[[Any, Value], nn.Module]] = MappingProxyType(
    {
        "DIN": _din,
        "BST": _bst,
        "SeqAugment": _augment,
        "SeqAugmentOps": _augment,
        "TextCNN": _text_cnn,
        "Attention": _attention,
        "MultiHeadAttention": _heads,
    }
)
