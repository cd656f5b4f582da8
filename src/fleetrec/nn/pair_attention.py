"""Attention over the products of pairs."""

# Shape suffixes: B samples, F fields, D width, P pairs, A attention width.

import torch
from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.pairs import FieldPairs


class PairAttention(nn.Module):
    """x = sum_{i<j} a_ij v_i * v_j, a = softmax over all pairs of <h, act(W (v_i * v_j) + b)>.

    Xiao et al., "Attentional Factorization Machines: Learning the Weight of Feature Interactions
    via Attention Networks", IJCAI 2017.
    """

    def __init__(
        self, num_fields: int, dim: int, *, attention_dim: int, act: ActivationName = "relu"
    ) -> None:
        super().__init__()
        self.pairs = FieldPairs(num_fields)
        self.hidden = scaled_linear(dim, attention_dim)
        self.act = activation(act, dim=attention_dim)
        self.score = scaled_linear(attention_dim, 1, bias=False)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return x_BD."""
        left_BPD, right_BPD = self.pairs.of(x_BFD)
        products_BPD = left_BPD * right_BPD
        scores_BP1 = self.score(self.act(self.hidden(products_BPD)))
        return (torch.softmax(scores_BP1, dim=1) * products_BPD).sum(dim=1)
