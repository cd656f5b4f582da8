"""A transformer over a history of fixed length, maybe with a target."""

# Shape suffixes: B samples, L elements, D width of an element, H hidden width, P positions.

import dataclasses
from typing import Literal

import torch
from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName
from fleetrec.nn.encoder_block import NO_DROPOUT, EncoderBlock, EncoderDropout
from fleetrec.nn.mlp import scaled_linear

Place = Literal["head", "tail", "none"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSize:
    """Widths and numbers of layers and heads."""

    hidden: int
    num_layers: int
    num_heads: int
    intermediate: int
    act: ActivationName = "gelu"
    dropout: EncoderDropout = NO_DROPOUT


class BehaviourTransformer(nn.Module):
    """Layers of self-attention over at most ``length`` elements with positions, and a target.

    Chen et al., "Behavior Sequence Transformer for E-commerce Recommendation in Alibaba", DLP-KDD
    2019. The output is that of all positions side by side, of which those without an element are
    0, or that of the first position.
    """

    def __init__(
        self,
        dim: int,
        *,
        size: TransformerSize,
        length: int,
        target: Place = "none",
        positions: bool = True,
        all_positions: bool = True,
    ) -> None:
        super().__init__()
        if size.hidden % size.num_heads:
            raise ValueError(
                f"num_attention_heads {size.num_heads} must divide hidden_size {size.hidden}"
            )
        self.length, self.target, self.all_positions = length, target, all_positions
        self.project = self._project(dim, size.hidden)
        self.project_target = self._project(dim, size.hidden) if target != "none" else None
        self.num_places = length + (target != "none")
        self.positions_PH = None
        if positions:
            self.positions_PH = nn.Parameter(torch.randn(self.num_places, size.hidden) * 0.02)
        self.layers = nn.ModuleList(
            EncoderBlock(
                size.hidden,
                num_heads=size.num_heads,
                key_dim=size.hidden // size.num_heads,
                hidden_dim=size.intermediate,
                act=size.act,
                dropout=size.dropout,
            )
            for _ in range(size.num_layers)
        )
        self.out_dim = size.hidden * (self.num_places if all_positions else 1)

    def forward(
        self, history_BLD: Tensor, mask_BL: Tensor, target_BD: Tensor | None = None
    ) -> Tensor:
        """Return one vector per sample, ``out_dim`` wide; ``mask_BL`` is true for elements."""
        num_samples = history_BLD.shape[0]
        padding = history_BLD.new_zeros(num_samples, self.length, history_BLD.shape[2])
        x_BLH = self.project(torch.cat([history_BLD, padding], dim=1)[:, : self.length])
        no_elements = torch.zeros_like(padding[:, :, 0], dtype=torch.bool)
        mask_BL = torch.cat([mask_BL, no_elements], dim=1)[:, : self.length]
        if self.project_target is not None:
            assert target_BD is not None
            parts = [self.project_target(target_BD).unsqueeze(1), x_BLH]
            masks = [torch.ones_like(mask_BL[:, :1]), mask_BL]
            if self.target == "tail":
                parts, masks = parts[::-1], masks[::-1]
            x_BLH, mask_BL = torch.cat(parts, dim=1), torch.cat(masks, dim=1)
        if self.positions_PH is not None:
            x_BLH = x_BLH + self.positions_PH
        for layer in self.layers:
            x_BLH = layer(x_BLH, mask_BL)
        out_BX: Tensor = x_BLH.flatten(1) if self.all_positions else x_BLH[:, 0]
        return out_BX

    @staticmethod
    def _project(dim: int, hidden: int) -> nn.Module:
        if dim == hidden:
            return nn.Identity()
        return nn.Sequential(scaled_linear(dim, hidden), nn.ReLU())
