"""Cross network whose matrices are mixtures of low-rank experts."""

# Shape suffixes: B samples, X input width, E experts, R rank.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.weights import scaled_weight


class MixtureCross(nn.Module):
    """A stack of mixture layers; each one also gets the first input.

    Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale
    Learning to Rank Systems", WWW 2021.
    """

    def __init__(self, in_dim: int, *, num_layers: int, num_experts: int, rank: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            MixtureCrossLayer(in_dim, num_experts=num_experts, rank=rank) for _ in range(num_layers)
        )

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return the input and its crosses, x_BX."""
        x0_BX = x_BX
        for layer in self.layers:
            x_BX = layer(x0_BX, x_BX)
        return x_BX


class MixtureCrossLayer(nn.Module):
    """x_{l+1} = sum_e g_e(x_l) x_0 * (U_e tanh(C_e tanh(V_e x_l)) + b) + x_l, g = softmax(G x_l).

    U_e is X by R, C_e is R by R, V_e is R by X, with R much smaller than X.
    """

    def __init__(self, in_dim: int, *, num_experts: int, rank: int) -> None:
        super().__init__()
        self.down_ERX = scaled_weight(num_experts, rank, in_dim, fan_in=in_dim)
        self.inner_ERR = scaled_weight(num_experts, rank, rank, fan_in=rank)
        self.up_EXR = scaled_weight(num_experts, in_dim, rank, fan_in=rank)
        self.bias_X = nn.Parameter(torch.zeros(in_dim))
        self.gate = scaled_linear(in_dim, num_experts, bias=False)

    def forward(self, x0_BX: Tensor, x_BX: Tensor) -> Tensor:
        """Return the next x_BX."""
        low_BER = torch.tanh(torch.einsum("erx,bx->ber", self.down_ERX, x_BX))
        low_BER = torch.tanh(torch.einsum("ers,bes->ber", self.inner_ERR, low_BER))
        up_BEX = torch.einsum("exr,ber->bex", self.up_EXR, low_BER) + self.bias_X
        gates_BE1 = torch.softmax(self.gate(x_BX), dim=1).unsqueeze(2)
        return x0_BX * (gates_BE1 * up_BEX).sum(dim=1) + x_BX
