"""Weights for the elements of fields, and products of all pairs of fields."""

# Shape suffixes: B samples, G groups, X width of all fields, P pairs.

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class FieldGates(nn.Module):
    """y = norm(x + x * W_2 relu(W_1 z)), z the maximum and mean of each group of each field.

    Zhang, Huang and Zhang, "FiBiNet++: Reducing Model Size by Low Rank Feature Interaction Layer
    for CTR Prediction", CIKM 2023. Fields may differ in width.
    """

    def __init__(
        self,
        dims: Sequence[int],
        *,
        num_groups: int,
        reduction_ratio: int,
        skip: bool = True,
        norm: bool = True,
    ) -> None:
        super().__init__()
        odd = [dim for dim in dims if dim % num_groups]
        if odd:
            raise ValueError(f"num_squeeze_group {num_groups} must divide the width {odd[0]}")
        self.num_groups, self.skip = num_groups, skip
        self.out_dim = sum(dims)
        reduced = max(1, len(dims) * num_groups * 2 // reduction_ratio)
        self.reduce = scaled_linear(len(dims) * num_groups * 2, reduced)
        self.excite = scaled_linear(reduced, self.out_dim)
        self.norm = nn.LayerNorm(self.out_dim, eps=1e-3) if norm else nn.Identity()

    def forward(self, fields: Sequence[Tensor]) -> Tensor:
        """Return y_BX."""
        squeezed = []
        for field in fields:
            grouped_BGX = torch.unflatten(field, 1, (self.num_groups, -1))
            squeezed += [grouped_BGX.amax(dim=2), grouped_BGX.mean(dim=2)]
        weights_BX = self.excite(torch.relu(self.reduce(torch.cat(squeezed, dim=1))))
        x_BX = torch.cat(list(fields), dim=1)
        gated_BX = x_BX * weights_BX
        normed_BX: Tensor = self.norm(gated_BX + x_BX if self.skip else gated_BX)
        return normed_BX


class PairProducts(nn.Module):
    """y = W [p_ij], p_ij = <V v_i + b, v_j> for all i < j, or their elementwise products.

    V is one matrix (``all``), one of each i (``each``), or of each pair (``interaction``), which
    alone takes fields of different widths. The same paper.
    """

    def __init__(self, dims: Sequence[int], *, kind: str, dots: bool, out_dim: int) -> None:
        super().__init__()
        if kind != "interaction" and len(set(dims)) != 1:
            raise ValueError(f"type {kind!r} needs fields of one width, got {list(dims)}")
        if len(dims) < 2:
            raise ValueError("expected at least 2 fields")
        self.pairs = tuple(itertools.combinations(range(len(dims)), 2))
        self.kind, self.dots = kind, dots
        ends = {"all": [(0, 0)], "each": [(i, i) for i in range(len(dims) - 1)]}
        self.turns = nn.ModuleList(
            scaled_linear(dims[i], dims[j]) for i, j in ends.get(kind, self.pairs)
        )
        width = len(self.pairs) if dots else sum(dims[j] for _, j in self.pairs)
        self.out = scaled_linear(width, out_dim)
        self.out_dim = out_dim

    def forward(self, fields: Sequence[Tensor]) -> Tensor:
        """Return y_BX."""
        products = []
        for place, (i, j) in enumerate(self.pairs):
            turn = self.turns[{"all": 0, "each": i}.get(self.kind, place)]
            product = turn(fields[i]) * fields[j]
            products.append(product.sum(dim=1, keepdim=True) if self.dots else product)
        mixed_BX: Tensor = self.out(torch.cat(products, dim=1))
        return mixed_BX
