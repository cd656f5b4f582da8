"""Convolutions over a sequence."""

# Shape suffixes: B samples, L elements, D width, F filters.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName, activation


class TextCnn(nn.Module):
    """The maximum over the sequence of each of several convolutions.

    Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014. Sequences are cut
    or padded with zeros to ``length``. With ``length=0`` all have one window of padding, so that
    the result does not depend on the longest sequence of a batch.
    """

    def __init__(
        self,
        dim: int,
        *,
        filter_sizes: Sequence[int],
        num_filters: Sequence[int],
        length: int = 0,
        act: ActivationName = "relu",
    ) -> None:
        super().__init__()
        if len(filter_sizes) != len(num_filters) or not filter_sizes:
            raise ValueError(
                "text_cnn: expected filter_sizes and num_filters of one length, got "
                f"{list(filter_sizes)} and {list(num_filters)}"
            )
        if length and length < max(filter_sizes):
            raise ValueError(f"a sequence of {length} is shorter than a filter, {filter_sizes}")
        self.length = length
        self.padding = length or max(filter_sizes)
        self.filters = nn.ModuleList(
            nn.Linear(size * dim, count)
            for size, count in zip(filter_sizes, num_filters, strict=True)
        )
        self.sizes = tuple(filter_sizes)
        self.act = activation(act, dim=1)
        self.out_dim = sum(num_filters)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return y_BF; ``mask_BL`` is true where there is an element."""
        x_BLD = x_BLD * mask_BL.unsqueeze(2)
        padding = x_BLD.new_zeros(x_BLD.shape[0], self.padding, x_BLD.shape[2])
        padded_BLD = torch.cat([x_BLD, padding], dim=1)
        if self.length:
            padded_BLD = padded_BLD[:, : self.length]
        found = []
        for size, one in zip(self.sizes, self.filters, strict=True):
            last = padded_BLD.shape[1] - size + 1
            windows = torch.cat([padded_BLD[:, k : k + last] for k in range(size)], dim=2)
            found.append(self.act(one(windows)).amax(dim=1))
        return torch.cat(found, dim=1)
