"""Feature interactions of adaptive order in complex space."""

# Shape suffixes: B samples, F fields, D width, N output fields.

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear

SMALLEST = 1e-8  # squared modulus; its logarithm must be finite


class EulerMapping(nn.Module):
    """v_f becomes the complex vector m_f exp(i v_f): real m_f cos(v_f), imaginary m_f sin(v_f).

    Tian et al., "EulerNet: Adaptive Feature Interaction Learning via Euler's Formula for CTR
    Prediction", SIGIR 2023.
    """

    def __init__(self, num_fields: int) -> None:
        super().__init__()
        self.modulus_F1 = nn.Parameter(torch.ones(num_fields, 1))

    def forward(self, x_BFD: Tensor) -> tuple[Tensor, Tensor]:
        """Return real and imaginary part, two of BFD."""
        return self.modulus_F1 * torch.cos(x_BFD), self.modulus_F1 * torch.sin(x_BFD)


class EulerLayer(nn.Module):
    """N products of powers of all fields, in polar form, plus a linear layer on both parts.

    Explicit: prod_f z_f^a_nf = exp(sum_f a_nf log|z_f| + b_n) exp(i (sum_f a_nf arg z_f + c_n)),
    the orders a_nf being learned. Implicit: relu(W re + b) and relu(W im + b). The two are added,
    and each part is normalised.
    Tian et al., "EulerNet: Adaptive Feature Interaction Learning via Euler's Formula for CTR
    Prediction", SIGIR 2023.
    """

    def __init__(self, num_fields: int, dim: int, *, out_fields: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.orders_NF = nn.Parameter(_first_orders(out_fields, num_fields))
        self.log_modulus_ND = nn.Parameter(torch.zeros(out_fields, dim))
        self.phase_ND = nn.Parameter(torch.zeros(out_fields, dim))
        self.implicit = scaled_linear(num_fields * dim, out_fields * dim)
        self.real_norm = nn.LayerNorm(out_fields * dim)
        self.imaginary_norm = nn.LayerNorm(out_fields * dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, real_BFD: Tensor, imaginary_BFD: Tensor) -> tuple[Tensor, Tensor]:
        """Return real and imaginary part, two of BND."""
        log_modulus_BFD = 0.5 * (real_BFD.square() + imaginary_BFD.square() + SMALLEST).log()
        phase_BFD = torch.atan2(imaginary_BFD, real_BFD)
        log_modulus_BND = self.orders_NF @ self.dropout(log_modulus_BFD) + self.log_modulus_ND
        modulus_BND = torch.exp(log_modulus_BND)
        angle_BND = self.orders_NF @ self.dropout(phase_BFD) + self.phase_ND
        real_BND = modulus_BND * torch.cos(angle_BND) + self._implicit(real_BFD)
        imaginary_BND = modulus_BND * torch.sin(angle_BND) + self._implicit(imaginary_BFD)
        return (
            self.real_norm(real_BND.flatten(1)).view_as(real_BND),
            self.imaginary_norm(imaginary_BND.flatten(1)).view_as(imaginary_BND),
        )

    def _implicit(self, x_BFD: Tensor) -> Tensor:
        out_BX = torch.relu(self.implicit(self.dropout(x_BFD.flatten(1))))
        return torch.unflatten(out_BX, 1, (self.orders_NF.shape[0], -1))


def _first_orders(out_fields: int, num_fields: int) -> Tensor:
    """Return initial orders: each output starts as one input field."""
    orders_NF = torch.zeros(out_fields, num_fields)
    for n in range(out_fields):
        orders_NF[n, n % num_fields] = 1.0
    return orders_NF
