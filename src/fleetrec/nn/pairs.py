"""All pairs of fields."""

# Shape suffixes: B samples, F fields, D width, P = F (F - 1) / 2 pairs.

import torch
from torch import Tensor, nn


class FieldPairs(nn.Module):
    """Selects the vectors of all pairs of fields i < j, in the order 01 02 .. 12."""

    left_P: Tensor
    right_P: Tensor

    def __init__(self, num_fields: int) -> None:
        super().__init__()
        left_P, right_P = torch.triu_indices(num_fields, num_fields, offset=1)
        self.register_buffer("left_P", left_P, persistent=False)
        self.register_buffer("right_P", right_P, persistent=False)
        self.num_pairs = len(left_P)

    def of(self, x_BFD: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first and the second vector of each pair, two of BPD."""
        return x_BFD[:, self.left_P], x_BFD[:, self.right_P]
