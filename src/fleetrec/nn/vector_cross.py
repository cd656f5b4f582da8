"""Cross network with one weight vector per layer."""

# Shape suffixes: B samples, X input width.

import torch
from torch import Tensor, nn

from fleetrec.nn.weights import scaled_weight


class VectorCross(nn.Module):
    """x_{l+1} = x_0 <x_l, w_l> + b_l + x_l.

    Wang, Fu, Fu and Wang, "Deep & Cross Network for Ad Click Predictions", ADKDD 2017.
    """

    def __init__(self, in_dim: int, *, num_layers: int) -> None:
        super().__init__()
        layers = range(num_layers)
        self.weights = nn.ParameterList(scaled_weight(in_dim, fan_in=in_dim) for _ in layers)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(in_dim)) for _ in layers)

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return the input and its crosses, x_BX."""
        x0_BX = x_BX
        for weight_X, bias_X in zip(self.weights, self.biases, strict=True):
            scale_B1 = (x_BX @ weight_X).unsqueeze(1)
            x_BX = x0_BX * scale_B1 + bias_X + x_BX
        return x_BX
