"""One layer of a transformer encoder."""

# Shape suffixes: B samples, L elements, D width, H heads, K key width, V value width.

import dataclasses
import math

import torch
from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.mlp import scaled_linear


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDropout:
    """Dropout probabilities of outputs, attention weights and hidden values."""

    output: float = 0.0
    attention: float = 0.0
    hidden: float = 0.0


NO_DROPOUT = EncoderDropout()


class EncoderBlock(nn.Module):
    """x = norm(x + dropout(attention(x))), then x = norm(x + dropout(W_2 act(W_1 x + b_1) + b_2)).

    Dropout may act on attention and hidden values as well.

    attention = concat_h softmax(Q K^T / sqrt(K)) V, over the elements that the mask leaves.
    Vaswani et al., "Attention Is All You Need", 2017; over histories in Chen et al., "Behavior
    Sequence Transformer for E-commerce Recommendation in Alibaba", DLP-KDD 2019.
    """

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        key_dim: int,
        hidden_dim: int,
        act: ActivationName = "relu",
        dropout: EncoderDropout = NO_DROPOUT,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = 1.0 / math.sqrt(key_dim)
        width = num_heads * key_dim
        self.query = scaled_linear(dim, width, bias=False)
        self.key = scaled_linear(dim, width, bias=False)
        self.value = scaled_linear(dim, width, bias=False)
        self.project = scaled_linear(width, dim)
        self.attention_norm = nn.LayerNorm(dim)
        self.feed_forward = nn.Sequential(
            scaled_linear(dim, hidden_dim),
            activation(act, dim=hidden_dim),
            nn.Dropout(dropout.hidden),
            scaled_linear(hidden_dim, dim),
        )
        self.feed_forward_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout.output)
        self.attention_dropout = nn.Dropout(dropout.attention)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return x_BLD; ``mask_BL`` is true where there is an element, padding comes out as 0."""
        x_BLD = self.attention_norm(x_BLD + self.dropout(self._attention(x_BLD, mask_BL)))
        x_BLD = self.feed_forward_norm(x_BLD + self.dropout(self.feed_forward(x_BLD)))
        return x_BLD * mask_BL.unsqueeze(2)

    def _attention(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        query_BHLK, key_BHLK = self._heads(self.query(x_BLD)), self._heads(self.key(x_BLD))
        scores_BHLL = query_BHLK @ key_BHLK.transpose(2, 3) * self.scale
        # Not minus infinity: the softmax of a row without any element would be nan.
        lowest = torch.finfo(scores_BHLL.dtype).min
        scores_BHLL = scores_BHLL.masked_fill(~mask_BL[:, None, None, :], lowest)
        attention_BHLL = self.attention_dropout(torch.softmax(scores_BHLL, dim=3))
        mixed_BHLV = attention_BHLL @ self._heads(self.value(x_BLD))
        projected_BLD: Tensor = self.project(mixed_BHLV.transpose(1, 2).flatten(2))
        return projected_BLD

    def _heads(self, x_BLX: Tensor) -> Tensor:
        return torch.unflatten(x_BLX, 2, (self.num_heads, -1)).transpose(1, 2)
