"""Product layers over all pairs of fields."""

# Shape suffixes: B samples, F fields, D width, N outputs.

import torch
from torch import Tensor, nn

from fleetrec.nn.weights import scaled_weight


class InnerProduct(nn.Module):
    """y_n = sum_{i,j} w^n_ij <v_i, v_j> with w^n_ij = theta^n_i theta^n_j, |sum_i theta^n_i v_i|^2.

    Qu et al., "Product-based Neural Networks for User Response Prediction", ICDM 2016.
    """

    def __init__(self, num_fields: int, out_dim: int) -> None:
        super().__init__()
        self.theta_NF = scaled_weight(out_dim, num_fields, fan_in=num_fields)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return y_BN."""
        return torch.einsum("nf,bfd->bnd", self.theta_NF, x_BFD).square().sum(dim=2)


class OuterProduct(nn.Module):
    """y_n = <W^n, s s^T> where s = sum_i v_i: all outer products v_i v_j^T, added up.

    Qu et al., "Product-based Neural Networks for User Response Prediction", ICDM 2016.
    """

    def __init__(self, dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight_NDD = scaled_weight(out_dim, dim, dim, fan_in=dim * dim)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return y_BN."""
        sum_BD = x_BFD.sum(dim=1)
        return torch.einsum("nde,bd,be->bn", self.weight_NDD, sum_BD, sum_BD)
