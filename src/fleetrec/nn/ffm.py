"""The second-order part of a field-aware factorization machine."""

# Shape suffixes: B samples, F fields (the own and the other one), D width.

import torch
from torch import Tensor, nn


class FieldAwareInteraction(nn.Module):
    """logit = sum_{i<j} <v_ij, v_ji>; field i has a vector v_ij for each other field j.

    Juan, Zhuang, Chin and Lin, "Field-aware Factorization Machines for CTR Prediction",
    RecSys 2016.
    """

    def forward(self, x_BFFD: Tensor) -> Tensor:
        """Return logit_B; ``x_BFFD[:, i, j]`` is the vector of field i for field j."""
        products_BFF = (x_BFFD * x_BFFD.transpose(1, 2)).sum(dim=3)
        return torch.triu(products_BFF, diagonal=1).sum(dim=(1, 2))
