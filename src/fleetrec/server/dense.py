"""A server's part of the dense network: numbers in a row, moved by the usual optimizer."""

# Shape suffixes: P numbers of this server.

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.optim.dense import dense_optimizer

WEIGHTS = "weights"


class DensePart:
    """Some of the trained numbers of the dense network, one behind the other.

    All optimizers of the dense network work number by number, so it does not matter to which
    parameter one belongs, nor where one server ends and the next begins.
    """

    def __init__(self, weights_P: Tensor, options: OptimizerOptions) -> None:
        self._parameter = nn.Parameter(weights_P.clone())
        self._options = options
        self._optimizer = dense_optimizer([self._parameter], options)

    def __len__(self) -> int:
        return len(self._parameter)

    @property
    def weights_P(self) -> Tensor:
        """Return the numbers as they are now; they change in place."""
        return self._parameter.detach()

    def apply(self, grads_P: Tensor) -> None:
        """Make one step."""
        if not len(self):
            return
        self._parameter.grad = grads_P
        self._optimizer.step()
        self._parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Return weights and optimizer state; a state has one number per weight, or only one."""
        state = self._optimizer.state.get(self._parameter, {})
        return {WEIGHTS: self.weights_P, **state}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take up ``state``; without optimizer state that begins anew."""
        with torch.no_grad():
            self._parameter.copy_(state[WEIGHTS])
        self._optimizer = dense_optimizer([self._parameter], self._options)
        for key in sorted(state.keys() - {WEIGHTS}):
            self._optimizer.state[self._parameter][key] = state[key].clone()
