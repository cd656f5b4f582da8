"""Cross network with one weight matrix per layer."""

# Shape suffixes: B samples, X input width.

from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class MatrixCross(nn.Module):
    """x_{l+1} = x_0 * (W_l x_l + b_l) + x_l.

    Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale
    Learning to Rank Systems", WWW 2021.
    """

    def __init__(self, in_dim: int, *, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(scaled_linear(in_dim, in_dim) for _ in range(num_layers))

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return the input and its crosses, x_BX."""
        x0_BX = x_BX
        for layer in self.layers:
            x_BX = x0_BX * layer(x_BX) + x_BX
        return x_BX
