"""A training step from slot text, against the dense network alone: how much the rest costs."""

# Shape suffixes: B samples, X input width.

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from benchmarks.criteo_like import NUM_DENSE, SPARSE
from benchmarks.figure import Figure, ratios
from benchmarks.job import EMBEDDING_DIM, HIDDEN, dataset, dnn_phase
from fleetrec.config.job import OptimizerOptions
from fleetrec.data.loader import Loader
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.optim.dense import dense_optimizer
from fleetrec.train.phase import PhaseRun

TARGET = 0.85

# Different inputs in turn: a network that meets one batch only would find it in the cache.
NUM_DENSE_BATCHES = 4


def measure(
    parts: Sequence[Path], *, batch_size: int, num_rounds: int, hidden: Sequence[int] = HIDDEN
) -> list[Figure]:
    """Warm up on the first part, then train on one part per round, the bound beside it."""
    assert num_rounds < len(parts), f"{num_rounds} rounds need {num_rounds + 1} parts"
    phase = dnn_phase(parts[0].parent, batch_size=batch_size, hidden=hidden)
    bound = DenseBound(batch_size=batch_size, hidden=hidden)
    train_part(phase, parts[0])
    bound.run(num_steps=2)
    trained, alone = [], []
    for part in parts[1 : num_rounds + 1]:
        watch = _Stopwatch()
        num_rows = train_part(phase, part)
        trained.append(watch.speeds(num_rows))
        watch = _Stopwatch()
        num_rows = bound.run(num_steps=max(1, num_rows // batch_size))
        alone.append(watch.speeds(num_rows))
    (trained_wall, trained_cpu), (alone_wall, alone_cpu) = (
        zip(*speeds, strict=True) for speeds in (trained, alone)
    )
    return [
        Figure(name="dnn: dense network alone", values=alone_wall, unit="rows/s"),
        Figure(
            name="dnn: end to end",
            values=trained_wall,
            unit="rows/s",
            ratios=ratios(trained_wall, alone_wall),
            target=TARGET,
        ),
        Figure(
            name="dnn: end to end",
            values=trained_cpu,
            unit="rows/CPU s",
            ratios=ratios(trained_cpu, alone_cpu),
        ),
    ]


def train_part(phase: PhaseRun, part: Path) -> int:
    """Train on one file as the training loop does, threads started and stopped within."""
    loader = Loader(dataset(part, batch_size=phase.options.dataset.batch_size), seed=0)
    num_rows = 0
    with loader.epoch(0) as batches:
        for batch in batches:
            step = phase.strategy.train_step(batch)
            phase.scoreboard.count(step.outputs, batch, step.loss)
            num_rows += batch.num_samples
    return num_rows


class DenseBound:
    """The network of the model, fed from memory: forward, backward to its input, fused Adam."""

    def __init__(self, *, batch_size: int, hidden: Sequence[int] = HIDDEN) -> None:
        in_dim = len(SPARSE) * EMBEDDING_DIM + NUM_DENSE
        mlp = Mlp(in_dim, hidden)
        self._network = nn.Sequential(mlp, scaled_linear(mlp.out_dim, 1))
        self._optimizer = dense_optimizer(
            self._network.parameters(), OptimizerOptions(name="adam", lr=0.001)
        )
        shape = (NUM_DENSE_BATCHES, batch_size)
        generator = torch.Generator().manual_seed(0)
        self._inputs = torch.rand(*shape, in_dim, generator=generator)
        self._labels = (torch.rand(*shape, generator=generator) < 0.25).float()

    def run(self, *, num_steps: int) -> int:
        """Make some steps; returns the number of rows."""
        for step in range(num_steps):
            x_BX = self._inputs[step % NUM_DENSE_BATCHES].detach().requires_grad_()
            logit_B = self._network(x_BX).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(
                logit_B, self._labels[step % NUM_DENSE_BATCHES]
            )
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        return num_steps * self._inputs.shape[1]


class _Stopwatch:
    """Measures wall time, and the CPU time of all threads."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def speeds(self, num_rows: int) -> tuple[float, float]:
        """Return rows per second and per CPU second since the beginning."""
        wall_s, cpu_s = time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s
        return num_rows / wall_s, num_rows / cpu_s
