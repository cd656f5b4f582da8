"""A table in the network for whole numbers."""

# Shape suffixes: B samples, N numbers, D width.

import torch
from torch import Tensor, nn

from fleetrec.config.pipeline_dialect.backbone import EmbeddingLayer
from fleetrec.nn.weights import scaled_weight


class NumberTable(nn.Module):
    """A row for each whole number from 0; others get the first or the last row.

    The rows of several numbers, each with a table of its own, are side by side or a list.
    """

    def __init__(self, options: EmbeddingLayer, num_features: int) -> None:
        super().__init__()
        self._options = options
        self.rows = scaled_weight(
            num_features, options.vocab_size, options.embedding_dim, fan_in=options.embedding_dim
        )

    def forward(self, x_BN: Tensor) -> Tensor | list[Tensor]:
        """Return x_BX, or one x_BD per number."""
        ids_BN = x_BN.to(torch.int64).clamp(0, self._options.vocab_size - 1)
        vectors = [rows[ids_B] for rows, ids_B in zip(self.rows, ids_BN.unbind(1), strict=True)]
        if self._options.concat:
            return torch.cat(vectors, dim=1)
        return vectors
