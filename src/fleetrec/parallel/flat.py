"""The trained parameters of a model as one row of numbers."""

# Shape suffixes: P numbers of all trained parameters.

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Floats = npt.NDArray[np.float32]


class FlatParameters:
    """Parameters one behind the other, in the order of their names in the model."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._sizes = [parameter.numel() for parameter in self._parameters.values()]

    def __len__(self) -> int:
        return sum(self._sizes)

    def values(self) -> Floats:
        """Return the weights as they are now."""
        return self._join([p.detach() for p in self._parameters.values()])

    def grads(self) -> Floats:
        """Return the gradients; zeros where there is none."""
        return self._join(
            [
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                for parameter in self._parameters.values()
            ]
        )

    @torch.no_grad()
    def set_values(self, values_P: Floats) -> None:
        """Replace the weights."""
        for parameter, value in self._split(values_P).values():
            parameter.copy_(value)

    def by_name(self, values_P: Floats) -> dict[str, Tensor]:
        """Return numbers in the shapes of the parameters that they belong to."""
        return {name: value.clone() for name, (_, value) in self._split(values_P).items()}

    def from_names(self, values: Mapping[str, Tensor]) -> Floats:
        """Return what is given by name as one row."""
        return self._join([values[name] for name in self._parameters])

    @property
    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return list(self._parameters)

    def _join(self, tensors: list[Tensor]) -> Floats:
        if not tensors:
            return np.zeros(0, np.float32)
        flat_P = torch.cat([tensor.reshape(-1).to("cpu", torch.float32) for tensor in tensors])
        return flat_P.numpy()

    def _split(self, values_P: Floats) -> dict[str, tuple[nn.Parameter, Tensor]]:
        parts = torch.split(torch.from_numpy(values_P), self._sizes) if self._sizes else ()
        return {
            name: (parameter, part.reshape(parameter.shape))
            for (name, parameter), part in zip(self._parameters.items(), parts, strict=True)
        }
