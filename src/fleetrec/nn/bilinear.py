"""Bilinear interaction of pairs."""

# Shape suffixes: B samples, F fields, D width, P pairs.

from typing import Literal

import torch
from torch import Tensor, nn

from fleetrec.nn.pairs import FieldPairs
from fleetrec.nn.weights import scaled_weight

BilinearType = Literal["all", "each", "interaction"]


class BilinearInteraction(nn.Module):
    """p_ij = (v_i W) * v_j for all i < j; W is one for ``all``, one of ``each`` i, or of each pair.

    Huang, Zhang and Zhang, "FiBiNET: Combining Feature Importance and Bilinear Feature
    Interaction for Click-Through Rate Prediction", RecSys 2019.
    """

    def __init__(self, num_fields: int, dim: int, *, kind: BilinearType = "all") -> None:
        super().__init__()
        self.pairs = FieldPairs(num_fields)
        self.kind = kind
        num_matrices = {"all": 1, "each": num_fields - 1, "interaction": self.pairs.num_pairs}
        self.weight = scaled_weight(num_matrices[kind], dim, dim, fan_in=dim)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return the products of all pairs, p_BPD."""
        left_BPD, right_BPD = self.pairs.of(x_BFD)
        if self.kind == "interaction":
            turned_BPD = torch.einsum("bpd,pde->bpe", left_BPD, self.weight)
        else:  # each vector has one matrix: multiply it once, not once per pair
            each = self.weight.expand(x_BFD.shape[1] - 1, -1, -1)
            turned_BFD = torch.einsum("bfd,fde->bfe", x_BFD[:, :-1], each)
            turned_BPD = turned_BFD[:, self.pairs.left_P]
        return turned_BPD * right_BPD
