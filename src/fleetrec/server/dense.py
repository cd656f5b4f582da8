"""A server's part of the dense network: numbers in a row, moved by the usual optimizer."""

# Shape suffixes: P numbers of this server.

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.optim.dense import dense_optimizer, follows_steps
from fleetrec.optim.schedule import learning_rate

WEIGHTS = "weights"
NUM_STEPS = "num_steps"  # that were made, where updates depend on it


class DensePart:
    """Some of the trained numbers of the dense network, one behind the other.

    All optimizers of the dense network work number by number, so it does not matter to which
    parameter one belongs, nor where one server ends and the next begins.
    """

    def __init__(self, weights_P: Tensor, options: OptimizerOptions) -> None:
        self._parameter = nn.Parameter(weights_P.clone())
        self._options = options
        self._optimizer = dense_optimizer([self._parameter], options)
        self.num_steps = 0

    def __len__(self) -> int:
        return len(self._parameter)

    @property
    def weights_P(self) -> Tensor:
        """Return the numbers as they are now; they change in place."""
        return self._parameter.detach()

    def apply(self, grads_P: Tensor) -> None:
        """Make one step, with the learning rate that it has."""
        rate = learning_rate(self._options, self.num_steps)
        self.num_steps += 1
        if not len(self):
            return
        self._parameter.grad = grads_P
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Return weights and optimizer state; a state has one number per weight, or only one."""
        state = self._optimizer.state.get(self._parameter, {})
        steps = torch.tensor([float(self.num_steps)])
        counted = {NUM_STEPS: steps} if follows_steps(self._options) else {}
        return {WEIGHTS: self.weights_P, **counted, **state}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take up ``state``; without optimizer state that begins anew."""
        with torch.no_grad():
            self._parameter.copy_(state[WEIGHTS])
        self._optimizer = dense_optimizer([self._parameter], self._options)
        self.num_steps = int(state.get(NUM_STEPS, torch.zeros(1)))
        for key in sorted(state.keys() - {WEIGHTS, NUM_STEPS}):
            self._optimizer.state[self._parameter][key] = state[key].clone()
