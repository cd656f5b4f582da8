"""Cross network with a gate on each cross."""

# Shape suffixes: B samples, X input width.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class GatedCross(nn.Module):
    """x_{l+1} = x_0 * (W_l x_l + b_l) * sigmoid(G_l x_l) + x_l.

    Wang et al., "Towards Deeper, Lighter and Interpretable Cross Network for CTR Prediction",
    CIKM 2023.
    """

    def __init__(self, in_dim: int, *, num_layers: int) -> None:
        super().__init__()
        self.crosses = nn.ModuleList(scaled_linear(in_dim, in_dim) for _ in range(num_layers))
        self.gates = nn.ModuleList(
            scaled_linear(in_dim, in_dim, bias=False) for _ in range(num_layers)
        )

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return the input and its crosses, x_BX."""
        x0_BX = x_BX
        for cross, gate in zip(self.crosses, self.gates, strict=True):
            x_BX = x0_BX * cross(x_BX) * torch.sigmoid(gate(x_BX)) + x_BX
        return x_BX
