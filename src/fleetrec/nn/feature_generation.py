"""New fields out of neighbouring ones."""

# Shape suffixes: B samples, F fields, D width, C channels, G fields after pooling, N new fields.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class FeatureGeneration(nn.Module):
    """Layer by layer: C = tanh(convolution over fields), S = max pooling, new = tanh(W S + b).

    A convolution covers ``kernel`` neighbouring fields of one position of the vectors and keeps the
    number of fields; the pooling divides it. Each layer makes ``new_filters`` new fields out of
    each pooled one.
    Liu et al., "Feature Generation by Convolutional Neural Network for Click-Through Rate
    Prediction", WWW 2019.
    """

    def __init__(
        self,
        num_fields: int,
        dim: int,
        *,
        filters: Sequence[int],
        kernels: Sequence[int],
        pooling: Sequence[int],
        new_filters: Sequence[int],
    ) -> None:
        super().__init__()
        self.dim = dim
        self.convolutions = nn.ModuleList()
        self.pools = nn.ModuleList()
        self.recombinations = nn.ModuleList()
        channels, left = 1, num_fields
        self.num_new_fields = 0
        for out_channels, kernel, pool, new in zip(
            filters, kernels, pooling, new_filters, strict=True
        ):
            left //= pool
            if left == 0:
                raise ValueError(
                    f"{num_fields} fields are too few to be pooled by {tuple(pooling)}; leave out "
                    "the last layers of filters, filter_size, pooling_size and new_filters"
                )
            self.convolutions.append(
                nn.Sequential(
                    nn.ZeroPad2d((0, 0, (kernel - 1) // 2, kernel // 2)),
                    nn.Conv2d(channels, out_channels, kernel_size=(kernel, 1)),
                )
            )
            self.pools.append(nn.MaxPool2d(kernel_size=(pool, 1)))
            self.recombinations.append(scaled_linear(out_channels * left * dim, new * left * dim))
            self.num_new_fields += new * left
            channels = out_channels

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return the new fields of all layers, B by ``num_new_fields`` by D."""
        x_BCGD = x_BFD.unsqueeze(1)
        generated = []
        for convolution, pool, recombination in zip(
            self.convolutions, self.pools, self.recombinations, strict=True
        ):
            x_BCGD = pool(torch.tanh(convolution(x_BCGD)))
            new_BX = torch.tanh(recombination(x_BCGD.flatten(1)))
            generated.append(torch.unflatten(new_BX, 1, (-1, self.dim)))
        return torch.cat(generated, dim=1)
