"""Vectors for numbers."""

# Shape suffixes: B samples, N numbers, H half a width, D width, K bins, C digits.

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.weights import scaled_weight


class PeriodicEmbedding(nn.Module):
    """v = [sin(2 pi c x), cos(2 pi c x)], maybe with a linear layer of each number.

    Gorishniy, Rubachev and Babenko, "On Embeddings for Numerical Features in Tabular Deep
    Learning", NeurIPS 2022. The coefficients c start at N(0, sigma²).
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        sigma: float,
        linear: bool = True,
        act: ActivationName = "relu",
    ) -> None:
        super().__init__()
        self.coefficient_NH = nn.Parameter(torch.randn(num_features, dim // 2) * sigma)
        self.weight_NDD = scaled_weight(num_features, dim, dim, fan_in=dim) if linear else None
        self.bias_ND = nn.Parameter(torch.zeros(num_features, dim)) if linear else None
        self.act = activation(act if linear else "linear", dim=dim)

    def forward(self, x_BN: Tensor) -> Tensor:
        """Return v_BND."""
        angle_BNH = 2 * math.pi * self.coefficient_NH * x_BN.unsqueeze(2)
        v_BND = torch.cat([torch.sin(angle_BNH), torch.cos(angle_BNH)], dim=2)
        if self.weight_NDD is not None and self.bias_ND is not None:
            v_BND = torch.einsum("bnd,nde->bne", v_BND, self.weight_NDD) + self.bias_ND
        activated_BND: Tensor = self.act(v_BND)
        return activated_BND


class AutoDisEmbedding(nn.Module):
    """v = sum_k softmax_k((W h + a h) / t) e_k, h = leaky_relu(w x): a soft choice of K bins.

    Guo et al., "An Embedding Learning Framework for Numerical Features in CTR Prediction", KDD
    2021. Every number has bins and weights of its own.
    """

    def __init__(
        self, num_features: int, dim: int, *, num_bins: int, keep: float, temperature: float
    ) -> None:
        super().__init__()
        self.keep, self.temperature = keep, temperature
        self.bins_NKD = scaled_weight(num_features, num_bins, dim, fan_in=dim)
        self.project_NK = scaled_weight(num_features, num_bins, fan_in=1)
        self.mix_NKK = scaled_weight(num_features, num_bins, num_bins, fan_in=num_bins)

    def forward(self, x_BN: Tensor) -> Tensor:
        """Return v_BND."""
        hidden_BNK = nn.functional.leaky_relu(self.project_NK * x_BN.unsqueeze(2), 0.2)
        mixed_BNK = torch.einsum("nik,bnk->bni", self.mix_NKK, hidden_BNK)
        scores_BNK = (mixed_BNK + self.keep * hidden_BNK) / self.temperature
        return torch.einsum("bnk,nkd->bnd", torch.softmax(scores_BNK, dim=2), self.bins_NKD)


class NaryDisEmbedding(nn.Module):
    """The sum or the mean of vectors of the digits of a whole number, to several bases.

    Chen et al., "Numerical Feature Representation with Hybrid N-ary Encoding", CIKM 2022. The
    vectors of different bases are side by side. Numbers below 0 are taken as 0.
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        bases: Sequence[int],
        multiplier: float = 1.0,
        mean: bool = False,
    ) -> None:
        super().__init__()
        self.bases, self.multiplier, self.mean = tuple(bases), multiplier, mean
        self.num_digits = tuple(math.floor(math.log(2**31, base)) + 1 for base in bases)
        self.tables = nn.ParameterList(
            scaled_weight(num_features * count * base, dim, fan_in=dim)
            for base, count in zip(bases, self.num_digits, strict=True)
        )
        self.out_dim = dim * len(self.bases)

    def forward(self, x_BN: Tensor) -> Tensor:
        """Return v_BND, D the widths of all bases together."""
        whole_BN = (x_BN * self.multiplier).clamp(0, 2.0**31 - 129).to(torch.int64)
        parts = zip(self.bases, self.num_digits, self.tables, strict=True)
        return torch.cat([self._of_base(whole_BN, *part) for part in parts], dim=2)

    def _of_base(self, whole_BN: Tensor, base: int, count: int, table: Tensor) -> Tensor:
        device = whole_BN.device
        powers_C = torch.tensor([base**place for place in range(count)], device=device)
        rest_BNC = torch.div(whole_BN.unsqueeze(2), powers_C, rounding_mode="floor")
        digits_BNC = rest_BNC - torch.div(rest_BNC, base, rounding_mode="floor") * base
        places_C = torch.arange(count, device=device) * base
        features_N1 = torch.arange(whole_BN.shape[1], device=device).unsqueeze(1) * count * base
        vectors_BNCD = table[digits_BNC + places_C + features_N1]
        # Digits before the first one that is not 0 do not count; the last digit always does.
        used_BNC = (rest_BNC > 0) | (torch.arange(count, device=device) == 0)
        sums_BND = (vectors_BNCD * used_BNC.unsqueeze(3)).sum(dim=2)
        if self.mean:
            sums_BND = sums_BND / used_BNC.sum(dim=2, keepdim=True)
        return sums_BND
