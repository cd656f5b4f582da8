"""Network blocks that multiply by a mask computed from the input."""

# Shape suffixes: B samples, E embedded width, X input width, H output width.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class MaskBlock(nn.Module):
    """h = relu(norm(W (mask * x))), mask = W_2 relu(W_1 e + b_1) + b_2, norm over the width.

    ``e`` are the vectors of all fields, ``x`` the same, normalised, or the block below.
    Wang, She and Zhang, "MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking Models by
    Instance-Guided Mask", DLP-KDD 2021.
    """

    def __init__(
        self, embedded_dim: int, in_dim: int, out_dim: int, *, reduction_ratio: float
    ) -> None:
        super().__init__()
        aggregated = max(1, int(embedded_dim * reduction_ratio))
        self.aggregate = scaled_linear(embedded_dim, aggregated)
        self.project = scaled_linear(aggregated, in_dim)
        self.out = scaled_linear(in_dim, out_dim, bias=False)
        self.norm = nn.LayerNorm(out_dim)

    def forward(self, embedded_BE: Tensor, x_BX: Tensor) -> Tensor:
        """Return h_BH."""
        mask_BX = self.project(torch.relu(self.aggregate(embedded_BE)))
        return torch.relu(self.norm(self.out(mask_BX * x_BX)))
