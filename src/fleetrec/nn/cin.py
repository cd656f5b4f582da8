"""Compressed interaction network."""

# Shape suffixes: B samples, F fields, D width, H vectors of the layer before, N of this layer.

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.weights import scaled_weight


class Cin(nn.Module):
    """Layer k has vectors x^k_n = sum_{h,f} w^k_nhf x^{k-1}_h * x^0_f, elementwise products.

    The output is the sum over the width of each vector of each layer.
    Lian et al., "xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender
    Systems", KDD 2018.
    """

    def __init__(self, num_fields: int, layer_sizes: Sequence[int]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            scaled_weight(size, before, num_fields, fan_in=before * num_fields)
            for before, size in itertools.pairwise([num_fields, *layer_sizes])
        )
        self.out_dim = sum(layer_sizes)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return the sums of all layers side by side, B by ``out_dim``."""
        x_BHD = x_BFD
        sums = []
        for weight_NHF in self.weights:
            # First over the fields, then over the vectors: no tensor of all products is made.
            mixed_BNHD = torch.einsum("nhf,bfd->bnhd", weight_NHF, x_BFD)
            x_BHD = (mixed_BNHD * x_BHD.unsqueeze(1)).sum(dim=2)
            sums.append(x_BHD.sum(dim=2))
        return torch.cat(sums, dim=1)
