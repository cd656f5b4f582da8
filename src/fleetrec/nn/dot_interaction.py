"""Dot products of all pairs."""

# Shape suffixes: B samples, F fields, D width, P pairs.

from torch import Tensor, nn

from fleetrec.nn.pairs import FieldPairs


class DotInteraction(nn.Module):
    """y_ij = <v_i, v_j> for all i < j.

    Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation
    Systems", 2019.
    """

    def __init__(self, num_fields: int) -> None:
        super().__init__()
        self.pairs = FieldPairs(num_fields)
        self.out_dim = self.pairs.num_pairs

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return y_BP."""
        products_BFF = x_BFD @ x_BFD.transpose(1, 2)
        return products_BFF[:, self.pairs.left_P, self.pairs.right_P]
