"""Dropout with a learned rate for each feature."""

# Shape suffixes: B samples, F features, X width of all features.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

TEMPERATURE = 0.1
EPS = 1e-7


class VariationalDropout(nn.Module):
    """Multiplies features by noise whose rate is learned, so that the rates rank the features.

    Chang et al., "Dropout Feature Ranking for Deep Learning Models", 2017. With ``by_value`` every
    value has a rate of its own, else all values of a feature share one.
    """

    def __init__(self, dims: Sequence[int], *, by_value: bool, penalty: float) -> None:
        super().__init__()
        self.logit_p = nn.Parameter(torch.zeros(sum(dims) if by_value else len(dims)))
        counts = torch.ones(sum(dims), dtype=torch.int64) if by_value else torch.tensor(dims)
        places = torch.repeat_interleave(torch.arange(len(counts)), counts)
        self.register_buffer("places", places, persistent=False)
        self._penalty = penalty

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return the noisy features; in evaluation the expected ones."""
        rates_F = torch.sigmoid(self.logit_p)
        if not self.training:
            return x_BX * (1 - self._spread(rates_F))
        noise_BF = torch.rand(x_BX.shape[0], len(rates_F), device=x_BX.device)
        logits_BF = (rates_F + EPS).log() - (1 - rates_F + EPS).log()
        logits_BF = logits_BF + (noise_BF + EPS).log() - (1 - noise_BF + EPS).log()
        return x_BX * (1 - self._spread(torch.sigmoid(logits_BF / TEMPERATURE)))

    def penalty(self, num_samples: int) -> Tensor:
        """Return the term of the loss that keeps rates high."""
        return self._penalty / num_samples * (1 - torch.sigmoid(self.logit_p)).sum()

    def _spread(self, values_F: Tensor) -> Tensor:
        places = self.places
        assert isinstance(places, Tensor)
        return values_F.index_select(-1, places)
