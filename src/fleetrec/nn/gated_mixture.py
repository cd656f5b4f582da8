"""Mixtures of given experts, one for each task."""

# Shape suffixes: B samples, X width of the gates' input, E experts, H width of an expert.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class GatedMixture(nn.Module):
    """y_t = sum_e softmax_e(G_t x) f_e for every task t.

    Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018.
    """

    def __init__(self, in_dim: int, num_experts: int, *, num_tasks: int) -> None:
        super().__init__()
        self.gates = nn.ModuleList(scaled_linear(in_dim, num_experts) for _ in range(num_tasks))

    def mix(self, opinions_BEH: Tensor, x_BX: Tensor) -> list[Tensor]:
        """Return y_BH of every task."""
        shares = [torch.softmax(gate(x_BX), dim=1) for gate in self.gates]
        return [torch.einsum("be,beh->bh", share_BE, opinions_BEH) for share_BE in shares]
