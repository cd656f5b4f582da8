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


class InstanceMask(nn.Module):
    """mask * x, and with ``out_dim`` relu(norm(W (mask * x))): a block with more options.

    ``hidden`` is the inner width of the mask, ``projection`` the rank of its first matrix. The same
    paper.
    """

    def __init__(
        self,
        in_dim: int,
        mask_dim: int,
        *,
        hidden: int,
        out_dim: int | None,
        projection: int | None = None,
        norm_input: bool = False,
    ) -> None:
        super().__init__()
        self.norm_input = nn.LayerNorm(in_dim, eps=1e-3) if norm_input else nn.Identity()
        first = [] if projection is None else [scaled_linear(mask_dim, projection, bias=False)]
        self.mask = nn.Sequential(
            *first,
            scaled_linear(projection or mask_dim, hidden),
            nn.ReLU(),
            scaled_linear(hidden, in_dim),
        )
        self.out: nn.Module = nn.Identity()
        if out_dim is not None:
            out = scaled_linear(in_dim, out_dim, bias=False)
            self.out = nn.Sequential(out, nn.LayerNorm(out_dim, eps=1e-3), nn.ReLU())
        self.out_dim = out_dim or in_dim

    def forward(self, x_BX: Tensor, mask_input_BE: Tensor) -> Tensor:
        """Return h_BH."""
        h_BH: Tensor = self.out(self.norm_input(x_BX) * self.mask(mask_input_BE))
        return h_BH
