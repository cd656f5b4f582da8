"""All dense features of a batch as one matrix."""

# Shape suffixes: B samples, X dense width.

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs


class DenseValues:
    """Concatenates the named dense features; all of them by default."""

    def __init__(self, inputs: Inputs, names: Iterable[str] | None = None) -> None:
        self.names = tuple(inputs.dense if names is None else names)
        self._widths = {name: math.prod(inputs.dense[name]) for name in self.names}
        self.width = sum(self._widths.values())

    @property
    def value_names(self) -> tuple[str, ...]:
        """Return the name of the feature of each value."""
        return tuple(name for name in self.names for _ in range(self._widths[name]))

    def of(self, batch: Batch) -> Tensor:
        """Return x_BX; there must be at least one feature."""
        return torch.cat([batch.dense[name].flatten(1) for name in self.names], dim=1)
