"""Attention of queries to keys and values."""

# Shape suffixes: B samples, Q queries, L elements, H heads, D width, V value width.

import math

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class DotAttention(nn.Module):
    """y = softmax(s Q K^T) V; s is 1, learned, or 1 / sqrt(D).

    With ``adds`` the scores are sum_d tanh(q_d + k_d) instead of products.
    """

    def __init__(
        self,
        dim: int,
        *,
        learns_scale: bool = False,
        scales_by_dim: bool = False,
        adds: bool = False,
        dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(())) if learns_scale else None
        self.factor = 1 / math.sqrt(dim) if scales_by_dim else 1.0
        self.adds, self.causal = adds, causal
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, query_BQD: Tensor, value_BLV: Tensor, key_BLD: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the mixed values, B by Q by V, and their shares."""
        if self.adds:
            both = query_BQD.unsqueeze(2) + key_BLD.unsqueeze(1)
            scores_BQL = torch.tanh(both).sum(dim=3)
        else:
            scores_BQL = query_BQD @ key_BLD.transpose(1, 2)
        scores_BQL = scores_BQL * self.factor
        if self.scale is not None:
            scores_BQL = scores_BQL * self.scale
        shares_BQL = torch.softmax(masked(scores_BQL, causal=self.causal), dim=2)
        return self.dropout(shares_BQL) @ value_BLV, shares_BQL


class HeadsAttention(nn.Module):
    """The same with projections of several heads, whose results are projected together.

    Vaswani et al., "Attention Is All You Need", 2017.
    """

    def __init__(  # noqa: PLR0913
        self,
        dims: tuple[int, int, int],
        *,
        num_heads: int,
        key_dim: int,
        value_dim: int,
        out_dim: int,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        """``dims`` are the widths of queries, values and keys."""
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.query = scaled_linear(dims[0], num_heads * key_dim, bias=bias)
        self.value = scaled_linear(dims[1], num_heads * value_dim, bias=bias)
        self.key = scaled_linear(dims[2], num_heads * key_dim, bias=bias)
        self.out = scaled_linear(num_heads * value_dim, out_dim, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.scale = 1 / math.sqrt(key_dim)
        self.out_dim = out_dim

    def forward(
        self,
        query_BQD: Tensor,
        value_BLD: Tensor,
        key_BLD: Tensor,
        mask_BL: Tensor | None = None,
    ) -> Tensor:
        """Return y, B by Q by ``out_dim``; ``mask_BL`` is true for elements that count."""
        query, key = self._heads(self.query(query_BQD)), self._heads(self.key(key_BLD))
        scores_BHQL = masked(query @ key.transpose(2, 3) * self.scale, causal=self.causal)
        if mask_BL is not None:
            lowest = torch.finfo(scores_BHQL.dtype).min
            scores_BHQL = scores_BHQL.masked_fill(~mask_BL[:, None, None, :], lowest)
        shares_BHQL = self.dropout(torch.softmax(scores_BHQL, dim=3))
        mixed_BHQV = shares_BHQL @ self._heads(self.value(value_BLD))
        mixed: Tensor = self.out(mixed_BHQV.transpose(1, 2).flatten(2))
        return mixed

    def _heads(self, x_BLX: Tensor) -> Tensor:
        return torch.unflatten(x_BLX, 2, (self.num_heads, -1)).transpose(1, 2)


def masked(scores: Tensor, *, causal: bool) -> Tensor:
    """Return scores in which a query does not see later elements, if it is ``causal``."""
    if not causal:
        return scores
    places_Q = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(1)
    places_L = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill(places_L > places_Q, torch.finfo(scores.dtype).min)
