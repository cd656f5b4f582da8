"""Layers of given widths whose last one may differ."""

import dataclasses
from collections.abc import Sequence

from torch import Tensor, nn

from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.batch_norm import WideBatchNorm
from fleetrec.nn.initial_weights import fill_weights
from fleetrec.nn.linear import Linear


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DenseStyle:
    """How one layer of a stack is built."""

    act: ActivationName = "relu"
    softmax: bool = False
    batch_norm: bool = True
    norm_is_last: bool = False
    bias: bool = False
    initial: str = "he_uniform"


class DenseStack(nn.Sequential):
    """Linear layers, each with batch normalisation, an activation and dropout.

    Normalisation comes before the activation, or with ``norm_is_last`` after it. Inputs may have
    any number of leading dimensions.
    """

    def __init__(
        self,
        in_dim: int,
        hidden: Sequence[int],
        *,
        style: DenseStyle,
        final: DenseStyle,
        dropout: Sequence[float] = (),
    ) -> None:
        super().__init__()
        ratios = [*dropout, *[0.0] * len(hidden)]
        self.dims = tuple(hidden)
        for number, (width, ratio) in enumerate(zip(hidden, ratios, strict=False)):
            chosen = final if number == len(hidden) - 1 else style
            self.append(dense_layer(in_dim, width, chosen, dropout=ratio))
            in_dim = width
        self.out_dim = in_dim


def dense_layer(in_dim: int, out_dim: int, style: DenseStyle, *, dropout: float) -> nn.Sequential:
    """Return one layer."""
    linear = Linear(in_dim, out_dim, bias=style.bias)
    fill_weights(linear.weight.data, style.initial)
    if style.bias:
        nn.init.zeros_(linear.bias)
    layer = nn.Sequential(linear)
    if style.batch_norm and not style.norm_is_last:
        layer.append(WideBatchNorm(out_dim))
    layer.append(nn.Softmax(dim=-1) if style.softmax else activation(style.act, dim=out_dim))
    if style.batch_norm and style.norm_is_last:
        layer.append(WideBatchNorm(out_dim))
    if dropout:
        layer.append(nn.Dropout(dropout))
    return layer


class GatedStack(nn.Module):
    """A stack whose layers are multiplied by gates that another input computes.

    Chang et al., "PEPNet: Parameter and Embedding Personalized Network for Infusing with
    Personalized Prior Information", KDD 2023. ``before`` is a gate of the input; the others follow
    the layers.
    """

    def __init__(
        self, stack: DenseStack, gates: Sequence[nn.Module], *, before: nn.Module | None
    ) -> None:
        super().__init__()
        self.stack, self.gates, self.before = stack, nn.ModuleList(gates), before
        self.out_dim = stack.out_dim

    def forward(self, x: Tensor, gate_input: Tensor) -> Tensor:
        """Return the output of the last layer."""
        if self.before is not None:
            x = x * self.before(gate_input)
        for number, layer in enumerate(self.stack):
            x = layer(x)
            if number < len(self.gates):
                x = x * self.gates[number](gate_input)
        return x


class Gate(nn.Sequential):
    """g = 2 sigmoid(W_2 act(W_1 x))."""

    def __init__(
        self, in_dim: int, out_dim: int, *, hidden: int, style: DenseStyle, dropout: float
    ) -> None:
        last = DenseStyle(act="sigmoid", batch_norm=False, bias=style.bias)
        super().__init__(
            dense_layer(in_dim, hidden, style, dropout=dropout),
            dense_layer(hidden, out_dim, last, dropout=0.0),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return factors between 0 and 2."""
        for layer in self:
            x = layer(x)
        return 2 * x
