"""The first-order part of a model."""

# Shape suffixes: B samples, F fields.

import torch
from torch import Tensor, nn


class LinearTerms(nn.Module):
    """logit = b + sum_f w_f x_f, where the terms w_f x_f have been looked up already."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, terms_BF: Tensor) -> Tensor:
        """Return logit_B."""
        return self.bias + terms_BF.sum(dim=1)
