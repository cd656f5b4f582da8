"""The network of the benchmarks alone, in torch's own layers and in ours."""

# Shape suffixes: B samples, X input width.

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.criteo_like import NUM_DENSE, SPARSE
from benchmarks.job import EMBEDDING_DIM
from fleetrec.config.job import OptimizerOptions
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.optim.dense import dense_optimizer

IN_DIM = len(SPARSE) * EMBEDDING_DIM + NUM_DENSE

# Different inputs in turn: a network that meets one batch only would find it in the cache.
NUM_DENSE_BATCHES = 4


def plain_network(hidden: Sequence[int]) -> nn.Module:
    """Return linear layers and ReLUs, and a linear layer to one logit."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise([IN_DIM, *hidden]):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], 1), nn.Flatten(0))


class OwnNetwork(nn.Module):
    """The same with our layers."""

    def __init__(self, hidden: Sequence[int]) -> None:
        super().__init__()
        self._mlp = Mlp(IN_DIM, hidden)
        self._out = scaled_linear(self._mlp.out_dim, 1)

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return logit_B."""
        return self._mlp.logit_of_parts([x_BX], self._out)


class DenseBound:
    """A network fed from memory: forward, backward to its input, fused Adam."""

    def __init__(self, network: nn.Module, *, batch_size: int) -> None:
        self._network = network
        self._optimizer = dense_optimizer(
            network.parameters(), OptimizerOptions(name="adam", lr=0.001)
        )
        shape = (NUM_DENSE_BATCHES, batch_size)
        generator = torch.Generator().manual_seed(0)
        self._inputs = torch.rand(*shape, IN_DIM, generator=generator)
        self._labels = (torch.rand(*shape, generator=generator) < 0.25).float()

    def run(self, *, num_steps: int) -> int:
        """Make some steps; returns the number of rows."""
        for step in range(num_steps):
            x_BX = self._inputs[step % NUM_DENSE_BATCHES].detach().requires_grad_()
            logit_B = self._network(x_BX)
            loss = functional.binary_cross_entropy_with_logits(
                logit_B, self._labels[step % NUM_DENSE_BATCHES]
            )
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        return num_steps * self._inputs.shape[1]
