"""Layers that a gate may skip."""

from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.mlp import scaled_linear


class Highway(nn.Module):
    """y = t act(W x + b) + (1 - t) x, t = sigmoid(W_t x + b_t), several times.

    Srivastava, Greff and Schmidhuber, "Highway Networks", 2015. A first layer changes the width if
    ``dim`` differs from that of the input.
    """

    def __init__(
        self,
        in_dim: int,
        dim: int,
        *,
        num_layers: int,
        act: ActivationName,
        gate_bias: float,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.out_dim = dim
        self.project = scaled_linear(in_dim, dim) if in_dim != dim else nn.Identity()
        self.gates = nn.ModuleList(scaled_linear(dim, dim) for _ in range(num_layers))
        self.layers = nn.ModuleList(
            nn.Sequential(scaled_linear(dim, dim), activation(act, dim=dim), nn.Dropout(dropout))
            for _ in range(num_layers)
        )
        for gate in self.gates:
            nn.init.constant_(gate.bias, gate_bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor whose last dimension is ``dim``."""
        x = self.project(x)
        for gate, layer in zip(self.gates, self.layers, strict=True):
            share = gate(x).sigmoid()
            x = share * layer(x) + (1 - share) * x
        return x
