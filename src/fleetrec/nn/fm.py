"""The second-order part of a factorization machine."""

# Shape suffixes: B samples, F fields, D width.

from torch import Tensor, nn

from fleetrec.nn.bi_interaction import BiInteraction


class FactorizationMachine(nn.Module):
    """logit = sum_{i<j} <v_i, v_j>.

    Rendle, "Factorization Machines", ICDM 2010.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pool = BiInteraction()

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return logit_B."""
        pooled_BD: Tensor = self.pool(x_BFD)
        return pooled_BD.sum(dim=1)
