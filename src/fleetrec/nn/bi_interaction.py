"""Bi-interaction pooling."""

# Shape suffixes: B samples, F fields, D width.

from torch import Tensor, nn


class BiInteraction(nn.Module):
    """x = sum_{i<j} v_i * v_j elementwise, in linear time: ((sum v)^2 - sum v^2) / 2.

    He and Chua, "Neural Factorization Machines for Sparse Predictive Analytics", SIGIR 2017.
    """

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return x_BD."""
        return 0.5 * (x_BFD.sum(dim=1).square() - x_BFD.square().sum(dim=1))
