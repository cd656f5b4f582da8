"""Attention weights of the elements of a history for a target."""

# Shape suffixes: B samples, L elements of a history, D width.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName
from fleetrec.nn.mlp import Mlp, scaled_linear


class TargetAttention(nn.Module):
    """w_l = MLP(q, k_l, q - k_l, q * k_l), the activation unit of a deep interest network.

    Weights are not normalised, so that a strong interest stays strong; those of padding are zero.
    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018.
    """

    def __init__(
        self, dim: int, *, hidden: Sequence[int], activation: ActivationName = "sigmoid"
    ) -> None:
        super().__init__()
        self.mlp = Mlp(4 * dim, hidden, activation=activation)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def weights(self, target_BD: Tensor, history_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return weights_BL; ``mask_BL`` is true where there is an element."""
        target_BLD = target_BD.unsqueeze(1).expand_as(history_BLD)
        both_BLX = torch.cat(
            [target_BLD, history_BLD, target_BLD - history_BLD, target_BLD * history_BLD], dim=2
        )
        weights_BL: Tensor = self.out(self.mlp(both_BLX)).squeeze(2)
        return weights_BL.masked_fill(~mask_BL, 0.0)

    def forward(self, target_BD: Tensor, history_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return x_BD, the weighted sum of the history; zeros for an empty one."""
        weights_BL = self.weights(target_BD, history_BLD, mask_BL)
        return (weights_BL.unsqueeze(2) * history_BLD).sum(dim=1)
