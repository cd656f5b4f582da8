"""One logit out of two hidden vectors."""

# Shape suffixes: B samples, H heads, L width of the left vector, R of the right one.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.weights import scaled_weight


class BilinearFusion(nn.Module):
    """logit = b + <w_1, l> + <w_2, r> + sum_h l_h^T W_h r_h; both vectors are cut into heads.

    Mao et al., "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction", AAAI 2023.
    """

    def __init__(self, left_dim: int, right_dim: int, *, num_heads: int = 1) -> None:
        super().__init__()
        if left_dim % num_heads or right_dim % num_heads:
            raise ValueError(
                f"num_heads must divide the last hidden widths {left_dim} and {right_dim}, "
                f"got {num_heads}"
            )
        self.num_heads = num_heads
        self.left = scaled_linear(left_dim, 1)
        self.right = scaled_linear(right_dim, 1, bias=False)
        self.weight_HLR = scaled_weight(
            num_heads, left_dim // num_heads, right_dim // num_heads, fan_in=left_dim * right_dim
        )

    def forward(self, left_BX: Tensor, right_BX: Tensor) -> Tensor:
        """Return logit_B."""
        left_BHL = torch.unflatten(left_BX, 1, (self.num_heads, -1))
        right_BHR = torch.unflatten(right_BX, 1, (self.num_heads, -1))
        fused_B = torch.einsum("bhl,hlr,bhr->b", left_BHL, self.weight_HLR, right_BHR)
        linear_B1: Tensor = self.left(left_BX) + self.right(right_BX)
        return linear_B1.squeeze(1) + fused_B
