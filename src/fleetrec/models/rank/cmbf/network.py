"""The network of CMBF: images and texts that attend to themselves and to each other."""

# Shape suffixes: B samples, F features, L tokens, D width, H hidden width, X any width.

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch
from fleetrec.models.group_model import mlp_of
from fleetrec.models.groups import GroupEmbeddings
from fleetrec.nn.cross_modal import CrossAttention
from fleetrec.nn.encoder_block import EncoderBlock, EncoderDropout
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.sequence_tokens import SequenceTokens, all_true, mean_of_tokens
from fleetrec.nn.weights import scaled_weight

IMAGE, TEXT, GENERAL, OTHER = "image", "text", "general", "other"


class CmbfTower(Message):
    """``config`` of CMBF, and ``bottom_cmbf`` of DBMTL."""

    multi_head_num: int = Field(default=1, gt=0)
    image_multi_head_num: int = Field(default=1, gt=0)
    text_multi_head_num: int = Field(default=1, gt=0)
    text_head_size: int = Field(default=0, ge=0)
    image_head_size: int = Field(default=64, gt=0)
    image_feature_patch_num: int = Field(default=1, gt=0)
    image_feature_dim: int = Field(default=0, ge=0)
    image_self_attention_layer_num: int = Field(default=0, ge=0)
    text_self_attention_layer_num: int = Field(default=1, ge=0)
    cross_modal_layer_num: int = Field(default=1, ge=0)
    image_cross_head_size: int = Field(default=0, ge=0)
    text_cross_head_size: int = Field(default=0, ge=0)
    hidden_dropout_prob: float = Field(default=0.0, ge=0, lt=1)
    attention_probs_dropout_prob: float = Field(default=0.0, ge=0, lt=1)
    use_token_type: bool = False
    use_position_embeddings: bool = True
    max_position_embeddings: int = Field(default=0, ge=0)
    text_seq_emb_dropout_prob: float = Field(default=0.1, ge=0, lt=1)
    other_feature_dnn: Dnn | None = None


class ModalNetwork(nn.Module):
    """A vector of groups of which at least one is there; ``other`` is added at the end."""

    def __init__(self, inputs: GroupEmbeddings, other: Dnn | None) -> None:
        super().__init__()
        self._has = {name for name in (IMAGE, TEXT, GENERAL, OTHER) if name in inputs}
        if not self._has:
            raise ValueError("expected a group image, text, general or other")
        self.other: nn.Module | None = None
        self.other_dim = 0
        if OTHER in self._has:
            width = inputs.dim(OTHER)
            self.other = Mlp(width, ()) if other is None else mlp_of(other, width)
            self.other_dim = self.other.out_dim

    def has(self, *groups: str) -> bool:
        """Return whether one of the groups is there."""
        return any(group in self._has for group in groups)

    def joined(self, parts: list[Tensor], inputs: GroupEmbeddings, batch: Batch) -> Tensor:
        """Return the parts with the vector of ``other``."""
        if self.other is not None:
            parts = [*parts, self.other(inputs.cat(batch, OTHER))]
        return torch.cat(parts, dim=1)


class Images(nn.Module):
    """Tokens of images: several features, patches of one, or the numbers of one."""

    def __init__(self, options: CmbfTower, inputs: GroupEmbeddings) -> None:
        super().__init__()
        dim, count = inputs.common_dim(IMAGE), len(inputs.names(IMAGE))
        heads = options.image_multi_head_num
        self.out_dim = heads * options.image_head_size
        if not options.image_self_attention_layer_num:
            heads = options.multi_head_num
            self.out_dim = heads * options.image_cross_head_size
        patches = options.image_feature_patch_num if count == 1 else 1
        if dim % patches:
            raise ValueError(f"image_feature_patch_num {patches} must divide the width {dim}")
        self.num_tokens = count * patches
        self.project: nn.Module = nn.Identity()
        self.spread: Tensor | None = None
        if count == 1 and patches == 1 and options.image_self_attention_layer_num:
            width = options.image_feature_dim or dim
            self.project = nn.Identity() if width == dim else scaled_linear(dim, width)
            self.spread = scaled_weight(width, self.out_dim, fan_in=1)
            self.num_tokens = width
        elif dim // patches != self.out_dim:
            self.project = scaled_linear(dim // patches, self.out_dim)
        self.layers = _encoder(options, self.out_dim, heads, options.image_self_attention_layer_num)

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return tokens_BLH."""
        if self.spread is not None:
            tokens_BLH = self.project(x_BX).unsqueeze(2) * self.spread
        else:
            tokens_BLH = self.project(torch.unflatten(x_BX, 1, (self.num_tokens, -1)))
        for layer in self.layers:
            tokens_BLH = layer(tokens_BLH, all_true(tokens_BLH))
        found_BLH: Tensor = tokens_BLH
        return found_BLH


class Texts(nn.Module):
    """Tokens of general features and of sequences."""

    def __init__(self, options: CmbfTower, inputs: GroupEmbeddings) -> None:
        super().__init__()
        self.out_dim = options.text_head_size * options.text_multi_head_num
        if not self.out_dim:
            raise ValueError("text_head_size: expected a size above 0 with text or general")
        self.num_general = len(inputs.names(GENERAL)) if GENERAL in inputs else 0
        self.general: nn.Module = nn.Identity()
        if self.num_general and inputs.common_dim(GENERAL) != self.out_dim:
            self.general = scaled_linear(inputs.common_dim(GENERAL), self.out_dim)
        positions = options.max_position_embeddings if options.use_position_embeddings else 0
        if options.use_position_embeddings and not positions and TEXT in inputs:
            raise ValueError("max_position_embeddings: expected a number above 0")
        self.sequences = nn.ModuleList(
            SequenceTokens(
                dim,
                self.out_dim,
                num_positions=positions,
                has_kind=options.use_token_type,
                dropout=options.text_seq_emb_dropout_prob,
            )
            for dim in (inputs.sequence_dims(TEXT) if TEXT in inputs else ())
        )
        self.layers = _encoder(
            options,
            self.out_dim,
            options.text_multi_head_num,
            options.text_self_attention_layer_num,
        )

    def forward(self, inputs: GroupEmbeddings, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Return tokens_BLH and the masks of the general ones and of every sequence."""
        tokens, masks = [], []
        if self.num_general:
            tokens.append(self.general(inputs.stack(batch, GENERAL)))
            masks.append(all_true(tokens[0]))
        found = inputs.sequences(batch, TEXT) if len(self.sequences) else []
        for module, sequence in zip(self.sequences, found, strict=True):
            one_BLH, mask_BL = module(sequence.x_BLD, sequence.mask_BL)
            tokens.append(one_BLH)
            masks.append(mask_BL)
        tokens_BLH, mask_BL = torch.cat(tokens, dim=1), torch.cat(masks, dim=1)
        for layer in self.layers:
            tokens_BLH = layer(tokens_BLH, mask_BL)
        return tokens_BLH, masks

    @property
    def num_vectors(self) -> int:
        """Return the number of vectors that ``pooled`` concatenates."""
        return self.num_general + len(self.sequences)

    def pooled(self, tokens_BLH: Tensor, masks: list[Tensor]) -> Tensor:
        """Return general tokens side by side, and the mean of every sequence."""
        parts = list(torch.split(tokens_BLH, [mask.shape[1] for mask in masks], dim=1))
        first = [parts.pop(0).flatten(1)] if self.num_general else []
        rest = masks[1:] if self.num_general else masks
        means = [mean_of_tokens(part, mask) for part, mask in zip(parts, rest, strict=True)]
        return torch.cat([*first, *means], dim=1)


class CmbfNetwork(ModalNetwork):
    """Self-attention within images and within texts, then attention between them.

    Xie et al., "CMBF: Cross-Modal-Based Fusion Recommendation Algorithm", Sensors 2021.
    """

    def __init__(self, options: CmbfTower, inputs: GroupEmbeddings) -> None:
        super().__init__(inputs, options.other_feature_dnn)
        self.images = Images(options, inputs) if self.has(IMAGE) else None
        self.texts = Texts(options, inputs) if self.has(TEXT, GENERAL) else None
        image_dim = self.images.out_dim if self.images else 0
        text_dim = self.texts.out_dim if self.texts else 0
        image_layers, text_layers = nn.ModuleList(), nn.ModuleList()
        if self.images and self.texts:
            heads = options.multi_head_num
            sizes = (options.image_cross_head_size, options.text_cross_head_size)
            if options.cross_modal_layer_num and not all(sizes):
                raise ValueError("expected image_cross_head_size and text_cross_head_size above 0")
            for _ in range(options.cross_modal_layer_num):
                rate = options.attention_probs_dropout_prob
                image = CrossAttention(
                    image_dim, text_dim, num_heads=heads, head_dim=sizes[0], dropout=rate
                )
                text = CrossAttention(
                    text_dim, image_dim, num_heads=heads, head_dim=sizes[1], dropout=rate
                )
                image_dim, text_dim = image.out_dim, text.out_dim
                image_layers.append(image)
                text_layers.append(text)
        self.image_layers, self.text_layers = image_layers, text_layers
        num_texts = self.texts.num_vectors if self.texts else 0
        self.out_dim = image_dim + num_texts * text_dim + self.other_dim

    def forward(self, inputs: GroupEmbeddings, batch: Batch) -> Tensor:
        """Return one vector per sample."""
        image_BLH = None if self.images is None else self.images(inputs.cat(batch, IMAGE))
        parts = []
        if self.texts is None:
            return self.joined([] if image_BLH is None else [image_BLH.mean(1)], inputs, batch)
        text_BLH, masks = self.texts(inputs, batch)
        if image_BLH is not None:
            mask_BL = torch.cat(masks, dim=1)
            for image, text in zip(self.image_layers, self.text_layers, strict=True):
                image_BLH, text_BLH = (
                    image(image_BLH, text_BLH, mask_BL),
                    text(text_BLH, image_BLH, all_true(image_BLH)),
                )
            parts = [image_BLH.mean(dim=1)]
        return self.joined([*parts, self.texts.pooled(text_BLH, masks)], inputs, batch)


def _encoder(options: CmbfTower, dim: int, num_heads: int, num_layers: int) -> nn.ModuleList:
    dropout = EncoderDropout(
        output=options.hidden_dropout_prob, attention=options.attention_probs_dropout_prob
    )
    return nn.ModuleList(
        EncoderBlock(
            dim,
            num_heads=num_heads,
            key_dim=dim // num_heads,
            hidden_dim=4 * dim,
            act="gelu",
            dropout=dropout,
        )
        for _ in range(num_layers)
    )
