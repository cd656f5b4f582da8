"""A server's slice of the dense weights and their optimizers."""

# Shape suffixes: P dense weights of this server.

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fleetrec.embedding.sharding import TableShard
from fleetrec.optim.dense import dense_optimizer
from fleetrec.optim.schedule import learning_rate
from fleetrec.server.spec import ServedModel

WEIGHTS = "weights"
NUM_STEPS = "num_steps"  # made so far; learning rates may depend on it


class DensePart:
    """A slice of the flat vector of trained dense weights, ordered by optimizer.

    Dense optimizers are element-wise, so a slice may begin and end inside a parameter. In a state,
    optimizer slots are named ``<optimizer>/<slot>`` and hold one value per weight, or one for all.
    """

    def __init__(self, model: ServedModel, shard: TableShard, weights_P: Tensor) -> None:
        self._options = model.optimizers
        self._weights_P = weights_P.clone()
        sizes = [last - first for _, first, last in model.dense_segments(shard)]
        indexes = [index for index, _, _ in model.dense_segments(shard)]
        parts = torch.split(self._weights_P, sizes) if sizes else ()
        # Parameters are views of the vector.
        self._parameters = dict(zip(indexes, map(nn.Parameter, parts), strict=True))
        self._reset_optimizers()
        self.num_steps = 0

    def __len__(self) -> int:
        return len(self._weights_P)

    @property
    def weights_P(self) -> Tensor:
        """Return the current weights; steps change them in place."""
        return self._weights_P

    def apply(self, grads_P: Tensor) -> None:
        """Apply one step with the learning rates of that step."""
        offset = 0
        for index, parameter in self._parameters.items():
            parameter.grad = grads_P[offset : offset + len(parameter)]
            offset += len(parameter)
            optimizer = self._optimizers[index]
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self._options[index], self.num_steps)
            optimizer.step()
            parameter.grad = None
        self.num_steps += 1

    def state(self) -> dict[str, Tensor]:
        """Return the weights and optimizer slots."""
        state = {WEIGHTS: self.weights_P, NUM_STEPS: torch.tensor([float(self.num_steps)])}
        for index, parameter in self._parameters.items():
            slots = self._optimizers[index].state.get(parameter, {})
            state |= {f"{index}/{key}": value for key, value in slots.items()}
        return state

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load a state; optimizers without slots in it are reset."""
        self._weights_P.copy_(state[WEIGHTS])
        self._reset_optimizers()
        self.num_steps = int(state.get(NUM_STEPS, torch.zeros(1)))
        for name in sorted(state.keys() - {WEIGHTS, NUM_STEPS}):
            index, _, key = name.partition("/")
            if int(index) in self._parameters:
                parameter = self._parameters[int(index)]
                self._optimizers[int(index)].state[parameter][key] = state[name].clone()

    def _reset_optimizers(self) -> None:
        self._optimizers = {
            index: dense_optimizer([parameter], self._options[index])
            for index, parameter in self._parameters.items()
        }
