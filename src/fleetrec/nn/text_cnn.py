"""Convolutions over a sequence, pooled by their maximum."""

# Shape suffixes: B samples, L elements, D width of an element, X any width.

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class TextCnn(nn.Module):
    """max_l relu(W * x_l..l+k) for filters of several sizes.

    Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014. Sequences shorter
    than a filter are padded with zeros.
    """

    def __init__(
        self, dim: int, *, filter_sizes: Sequence[int], num_filters: Sequence[int]
    ) -> None:
        super().__init__()
        if len(filter_sizes) != len(num_filters) or not filter_sizes:
            raise ValueError(
                "text_cnn: expected filter_sizes and num_filters of one length, got "
                f"{list(filter_sizes)} and {list(num_filters)}"
            )
        self.sizes = tuple(filter_sizes)
        self.filters = nn.ModuleList(
            nn.Conv1d(dim, count, size)
            for size, count in zip(filter_sizes, num_filters, strict=True)
        )
        self.out_dim = sum(num_filters)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return y_BX."""
        x_BDL = (x_BLD * mask_BL.unsqueeze(2)).transpose(1, 2)
        x_BDL = functional.pad(x_BDL, (0, max(self.sizes) - 1))
        pooled = [torch.relu(one(x_BDL)).amax(dim=2) for one in self.filters]
        return torch.cat(pooled, dim=1)
