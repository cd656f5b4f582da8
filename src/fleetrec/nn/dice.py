"""An activation that adapts to the distribution of its input."""

# Shape suffixes: B samples, D width.

import torch
from torch import Tensor, nn

from fleetrec.nn.batch_norm import WideBatchNorm


class Dice(nn.Module):
    """p x + (1 - p) a x, p = sigmoid(normalised x), a learned per column.

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018. The input is
    normalised as in batch normalisation, without scale and shift.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = WideBatchNorm(dim, affine=False)
        self.slope_D = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; the last dimension is D."""
        share = torch.sigmoid(self.norm(x))
        return share * x + (1 - share) * self.slope_D * x
