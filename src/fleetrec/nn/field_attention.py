"""Self-attention over fields."""

# Shape suffixes: B samples, F fields, D input width, H heads, K key width, V value width.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class FieldAttention(nn.Module):
    """x'_m = relu(concat_h sum_k a^h_mk V^h x_k + R x_m), a^h_m = softmax_k <Q^h x_m, K^h x_k>.

    Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural
    Networks", CIKM 2019. Dropout acts on the attention.
    """

    def __init__(
        self, dim: int, *, num_heads: int, key_dim: int, value_dim: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.out_dim = num_heads * value_dim
        self.query = scaled_linear(dim, num_heads * key_dim, bias=False)
        self.key = scaled_linear(dim, num_heads * key_dim, bias=False)
        self.value = scaled_linear(dim, self.out_dim, bias=False)
        self.residual = scaled_linear(dim, self.out_dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return B by F by ``out_dim``."""
        query_BHFK, key_BHFK = self._heads(self.query(x_BFD)), self._heads(self.key(x_BFD))
        value_BHFV = self._heads(self.value(x_BFD))
        attention_BHFF = torch.softmax(query_BHFK @ key_BHFK.transpose(2, 3), dim=3)
        mixed_BHFV: Tensor = self.dropout(attention_BHFF) @ value_BHFV
        return torch.relu(mixed_BHFV.transpose(1, 2).flatten(2) + self.residual(x_BFD))

    def _heads(self, x_BFX: Tensor) -> Tensor:
        return torch.unflatten(x_BFX, 2, (self.num_heads, -1)).transpose(1, 2)
