"""Experts that all tasks share, and a gate per task that weights them."""

# Shape suffixes: B samples, X input width, E experts, H width of an expert.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.gated_mixture import GatedMixture
from fleetrec.nn.mlp import Mlp


class ExpertMixture(GatedMixture):
    """y_t = sum_e softmax_e(G_t x) f_e(x) for every task t.

    Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018.
    """

    def __init__(self, in_dim: int, experts: Sequence[Mlp], *, num_tasks: int) -> None:
        super().__init__(in_dim, len(experts), num_tasks=num_tasks)
        widths = {expert.out_dim for expert in experts}
        if len(widths) != 1:
            raise ValueError(f"experts must be equally wide, got {sorted(widths)}")
        self.out_dim = widths.pop()
        self.experts = nn.ModuleList(experts)

    def forward(self, x_BX: Tensor) -> list[Tensor]:
        """Return y_BH of every task."""
        return self.mix(torch.stack([expert(x_BX) for expert in self.experts], dim=1), x_BX)
