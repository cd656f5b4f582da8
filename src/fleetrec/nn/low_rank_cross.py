"""One layer of a cross network."""

# Shape suffixes: B samples, X input width.

from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.mlp import scaled_linear


class LowRankCross(nn.Module):
    """y = x_0 * (act(W x + b) + d x) + x; with a ``rank`` W is the product of two matrices.

    Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale
    Learning to Rank Systems", WWW 2021.
    """

    def __init__(
        self,
        dim: int,
        *,
        rank: int | None = None,
        diagonal: float = 0.0,
        bias: bool = True,
        act: ActivationName = "linear",
    ) -> None:
        super().__init__()
        self.diagonal = diagonal
        first = [] if rank is None else [scaled_linear(dim, rank, bias=False)]
        last = scaled_linear(rank or dim, dim, bias=bias)
        self.layers = nn.Sequential(*first, last, activation(act, dim=dim))

    def forward(self, x0_BX: Tensor, x_BX: Tensor) -> Tensor:
        """Return y_BX."""
        product_BX = self.layers(x_BX)
        if self.diagonal:
            product_BX = product_BX + self.diagonal * x_BX
        crossed_BX: Tensor = x0_BX * product_BX + x_BX
        return crossed_BX
