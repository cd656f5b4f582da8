"""A similarity on the scale of a logit."""

# Shape suffixes: any.

import torch
from torch import Tensor, nn


class ScaledSimilarity(nn.Module):
    """|w| s + b; initially equal to s."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, similarity: Tensor) -> Tensor:
        """Return the logit."""
        return similarity * self.weight.abs() + self.bias
