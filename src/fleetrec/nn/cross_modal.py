"""Two sets of tokens that attend to each other."""

# Shape suffixes: B samples, L tokens of one side, R of the other, H hidden width.

from torch import Tensor, nn

from fleetrec.nn.activation import activation
from fleetrec.nn.dot_attention import HeadsAttention
from fleetrec.nn.mlp import scaled_linear


class CrossAttention(nn.Module):
    """x = norm(P x + attention(x, y)), then x = norm(x + W_2 act(W_1 x + b_1) + b_2)."""

    def __init__(
        self, dim: int, other_dim: int, *, num_heads: int, head_dim: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.out_dim = num_heads * head_dim
        self.attention = HeadsAttention(
            (dim, other_dim, other_dim),
            num_heads=num_heads,
            key_dim=head_dim,
            value_dim=head_dim,
            out_dim=self.out_dim,
            dropout=dropout,
        )
        is_same = dim == self.out_dim
        self.project = nn.Identity() if is_same else scaled_linear(dim, self.out_dim)
        self.attention_norm = nn.LayerNorm(self.out_dim)
        self.feed_forward = nn.Sequential(
            scaled_linear(self.out_dim, 4 * self.out_dim),
            activation("gelu", dim=4 * self.out_dim),
            scaled_linear(4 * self.out_dim, self.out_dim),
        )
        self.feed_forward_norm = nn.LayerNorm(self.out_dim)

    def forward(self, x_BLH: Tensor, other_BRH: Tensor, other_mask_BR: Tensor) -> Tensor:
        """Return x_BLH."""
        attended_BLH = self.attention(x_BLH, other_BRH, other_BRH, other_mask_BR)
        x_BLH = self.attention_norm(self.project(x_BLH) + attended_BLH)
        out_BLH: Tensor = self.feed_forward_norm(x_BLH + self.feed_forward(x_BLH))
        return out_BLH
