"""One layer of progressive layered extraction."""

# Shape suffixes: B samples, X input width, E experts, H width of an expert.

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import Mlp, scaled_linear


class Extraction(nn.Module):
    """Each task mixes its own experts and the shared ones; the shared output mixes all.

    Tang et al., "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning (MTL) Model for
    Personalized Recommendations", RecSys 2020. The last layer has no shared output.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        own: Sequence[Sequence[Mlp]],
        shared: Sequence[Mlp],
        is_last: bool,
    ) -> None:
        super().__init__()
        widths = {expert.out_dim for expert in itertools.chain(shared, *own)}
        if len(widths) != 1:
            raise ValueError(f"experts must be equally wide, got {sorted(widths)}")
        self.out_dim = widths.pop()
        self.own = nn.ModuleList(nn.ModuleList(experts) for experts in own)
        self.shared = nn.ModuleList(shared)
        self.gates = nn.ModuleList(
            scaled_linear(in_dim, len(experts) + len(shared)) for experts in own
        )
        count = len(shared) + sum(len(experts) for experts in own)
        self.shared_gate = None if is_last else scaled_linear(in_dim, count)

    def forward(self, inputs: Sequence[Tensor], shared_BX: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return one vector per task and the shared one, which after the last layer is unused."""
        shared = [expert(shared_BX) for expert in self.shared]
        own = [
            [expert(x_BX) for expert in experts]  # type: ignore[attr-defined]
            for experts, x_BX in zip(self.own, inputs, strict=True)
        ]
        mixed = [
            _mix(gate(x_BX), [*experts, *shared])
            for gate, x_BX, experts in zip(self.gates, inputs, own, strict=True)
        ]
        if self.shared_gate is None:
            return mixed, shared_BX
        return mixed, _mix(self.shared_gate(shared_BX), [*itertools.chain(*own), *shared])


def _mix(scores_BE: Tensor, opinions: Sequence[Tensor]) -> Tensor:
    opinions_BEH = torch.stack(list(opinions), dim=1)
    return torch.einsum("be,beh->bh", torch.softmax(scores_BE, dim=1), opinions_BEH)
