"""Gates that select different parts of one input for two networks."""

# Shape suffixes: B samples, C context width, X input width.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import Mlp, scaled_linear


class FeatureSelection(nn.Module):
    """x' = 2 sigmoid(MLP(c)) * x; the context c is a learned vector if ``context_dim`` is 0.

    Mao et al., "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction", AAAI 2023.
    """

    def __init__(self, in_dim: int, *, context_dim: int = 0, hidden: Sequence[int] = ()) -> None:
        super().__init__()
        learned_dim = 1 if context_dim == 0 else 0
        self.context_C = nn.Parameter(torch.ones(learned_dim)) if learned_dim else None
        self.mlp = Mlp(context_dim or learned_dim, hidden)
        self.gate = scaled_linear(self.mlp.out_dim, in_dim)

    def forward(self, x_BX: Tensor, context_BC: Tensor | None = None) -> Tensor:
        """Return x_BX, weighted."""
        context = self.context_C if context_BC is None else context_BC
        return x_BX * 2 * torch.sigmoid(self.gate(self.mlp(context)))
