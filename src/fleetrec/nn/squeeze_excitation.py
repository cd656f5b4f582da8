"""Weights for whole fields."""

# Shape suffixes: B samples, F fields, D width.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class SqueezeExcitation(nn.Module):
    """v'_f = a_f v_f, a = relu(W_2 relu(W_1 z)), z_f the mean of v_f: SENET over fields.

    Huang, Zhang and Zhang, "FiBiNET: Combining Feature Importance and Bilinear Feature
    Interaction for Click-Through Rate Prediction", RecSys 2019.
    """

    def __init__(self, num_fields: int, *, reduction_ratio: int) -> None:
        super().__init__()
        reduced = max(1, num_fields // reduction_ratio)
        self.squeeze = scaled_linear(num_fields, reduced, bias=False)
        self.excite = scaled_linear(reduced, num_fields, bias=False)

    def forward(self, x_BFD: Tensor) -> Tensor:
        """Return x_BFD."""
        weights_BF = torch.relu(self.excite(torch.relu(self.squeeze(x_BFD.mean(dim=2)))))
        return x_BFD * weights_BF.unsqueeze(2)
