"""The trained parameters of a model as one vector of numbers."""

# Shape suffixes: P numbers of all trained parameters.

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fleetrec.models.base import Model
from fleetrec.parallel.optimizer_plan import OptimizerPlan

Floats = npt.NDArray[np.float32]


class FlatParameters:
    """Parameters one after the other: by optimizer, then in the order of the model."""

    def __init__(self, model: Model, plan: OptimizerPlan) -> None:
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._names: list[list[str]] = [[] for _ in plan.optimizers]
        for name in trained:
            self._names[plan.index_of(name)].append(name)
        self._parameters = {name: trained[name] for names in self._names for name in names}

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return how many numbers every optimizer updates."""
        return tuple(sum(self._parameters[n].numel() for n in names) for names in self._names)

    def values(self) -> Floats:
        """Return the weights as they are now."""
        return _join([p.detach() for p in self._parameters.values()])

    def gradients(self) -> list[Tensor]:
        """Return the gradients that there are."""
        return [p.grad for p in self._parameters.values() if p.grad is not None]

    def flat_gradients(self) -> Floats:
        """Return all gradients as one vector; zeros where there is none."""
        return _join(
            [
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                for parameter in self._parameters.values()
            ]
        )

    @torch.no_grad()
    def set_values(self, values_P: Floats) -> None:
        """Replace the weights."""
        for name, value in self._split(values_P, self._parameters).items():
            self._parameters[name].copy_(value)

    def by_name(self, values_P: Floats, *, optimizer: int | None = None) -> dict[str, Tensor]:
        """Return numbers in the shapes of their parameters; all, or those of one optimizer."""
        named = self._split(values_P, self._of(optimizer))
        return {name: value.clone() for name, value in named.items()}

    def from_names(self, values: Mapping[str, Tensor], *, optimizer: int) -> Floats:
        """Return what is given by name for all parameters of one optimizer as one vector."""
        return _join([values[name] for name in self._names[optimizer]])

    def names(self, *, optimizer: int) -> list[str]:
        """Return the names of the parameters of one optimizer."""
        return list(self._names[optimizer])

    def _of(self, optimizer: int | None) -> dict[str, nn.Parameter]:
        if optimizer is None:
            return self._parameters
        return {name: self._parameters[name] for name in self._names[optimizer]}

    @staticmethod
    def _split(values_P: Floats, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
        sizes = [parameter.numel() for parameter in parameters.values()]
        parts = torch.split(torch.from_numpy(values_P), sizes) if sizes else ()
        return {
            name: part.reshape(parameter.shape)
            for (name, parameter), part in zip(parameters.items(), parts, strict=True)
        }


def _join(tensors: list[Tensor]) -> Floats:
    if not tensors:
        return np.zeros(0, np.float32)
    flat_P = torch.cat([tensor.reshape(-1).to("cpu", torch.float32) for tensor in tensors])
    return flat_P.numpy()
