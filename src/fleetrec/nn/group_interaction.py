"""Bi-interaction within and between groups of fields."""

# Shape suffixes: B samples, F fields, D width, M groups, P pairs of groups.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.bi_interaction import BiInteraction
from fleetrec.nn.pairs import FieldPairs


class GroupInteraction(nn.Module):
    """x = sum_{m<n} r_mn e_m * e_n + sum_m r_m sum_{i<j in m} v_i * v_j, e_m the sum of group m.

    Dropout acts on the paths, that is on the single terms of the sums: Dicefactor.
    Chen et al., "FLEN: Leveraging Field for Scalable CTR Prediction", DLP-KDD 2020.
    """

    def __init__(self, group_sizes: Sequence[int], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.group_sizes = list(group_sizes)
        self.pairs = FieldPairs(len(group_sizes))
        self.pool = BiInteraction()
        self.between_P = nn.Parameter(torch.ones(self.pairs.num_pairs))
        self.within_M = nn.Parameter(torch.ones(len(group_sizes)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return x_BD; the fields come group by group."""
        groups = torch.split(x_BFD, self.group_sizes, dim=1)
        sums_BMD = torch.stack([group_BFD.sum(dim=1) for group_BFD in groups], dim=1)
        left_BPD, right_BPD = self.pairs.of(sums_BMD)
        pooled_BMD = torch.stack([self.pool(group_BFD) for group_BFD in groups], dim=1)
        terms_BXD = torch.cat([left_BPD * right_BPD, pooled_BMD], dim=1)
        weights_X = torch.cat([self.between_P, self.within_M])
        paths_BX: Tensor = self.dropout(weights_X.expand(x_BFD.shape[0], -1))
        return (terms_BXD * paths_BX.unsqueeze(2)).sum(dim=1)
