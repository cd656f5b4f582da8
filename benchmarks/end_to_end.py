"""Training from slot text, against the dense network alone and a loop by hand on FBGEMM."""

# Shape suffixes: B samples, X input width.

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from benchmarks import fbgemm
from benchmarks.criteo_like import NUM_DENSE, SPARSE
from benchmarks.figure import Figure, ratios
from benchmarks.job import EMBEDDING_DIM, HIDDEN, dataset, dnn_phase
from fleetrec.config.job import OptimizerOptions
from fleetrec.data.loader import Loader
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.optim.dense import dense_optimizer
from fleetrec.train.phase import PhaseRun

TARGET = 0.85
FBGEMM_TARGET = 1.2

# Different inputs in turn: a network that meets one batch only would find it in the cache.
NUM_DENSE_BATCHES = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Speed:
    """Rows per second, and per CPU second of all threads."""

    wall: float
    cpu: float


def measure(
    parts: Sequence[Path],
    *,
    batch_size: int,
    num_rounds: int,
    hidden: Sequence[int] = HIDDEN,
    say: Callable[[str], None] = print,
) -> list[Figure]:
    """Warm up on the first part, then train on one part per round, the others beside it."""
    assert num_rounds < len(parts), f"{num_rounds} rounds need {num_rounds + 1} parts"
    phase = dnn_phase(parts[0].parent, batch_size=batch_size, hidden=hidden)
    bound = DenseBound(batch_size=batch_size, hidden=hidden)
    with parts[0].open("rb") as stream:
        num_steps = max(1, sum(1 for _ in stream) // batch_size)
    contenders: dict[str, Callable[[Path], int]] = {
        "ours": lambda part: train_part(phase, part),
        "bound": lambda _: bound.run(num_steps=num_steps),
    }
    if fbgemm.is_installed():
        loop = fbgemm.FbgemmLoop(hidden=hidden)
        contenders["fbgemm"] = lambda part: loop.train_part(part, batch_size=batch_size)
    else:
        say(f"dnn: FBGEMM is not installed, so its loop is left out; {fbgemm.INSTALL}")
    speeds: dict[str, list[Speed]] = {name: [] for name in contenders}
    for part in parts[: num_rounds + 1]:
        for name, train in contenders.items():
            speeds[name].append(_speed(train, part))
    return _figures({name: found[1:] for name, found in speeds.items()})


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


def _figures(speeds: Mapping[str, Sequence[Speed]]) -> list[Figure]:
    wall = {name: [speed.wall for speed in found] for name, found in speeds.items()}
    cpu = {name: [speed.cpu for speed in found] for name, found in speeds.items()}
    figures = [
        Figure(name="dnn: dense network alone", values=wall["bound"], unit="rows/s"),
        Figure(
            name="dnn: end to end",
            values=wall["ours"],
            unit="rows/s",
            ratios=ratios(wall["ours"], wall["bound"]),
            target=TARGET,
        ),
        Figure(
            name="dnn: end to end",
            values=cpu["ours"],
            unit="rows/CPU s",
            ratios=ratios(cpu["ours"], cpu["bound"]),
        ),
    ]
    if "fbgemm" in wall:
        figures += [
            Figure(name="dnn: loop by hand on FBGEMM", values=wall["fbgemm"], unit="rows/s"),
            Figure(
                name="dnn: end to end over FBGEMM",
                values=wall["ours"],
                unit="rows/s",
                ratios=ratios(wall["ours"], wall["fbgemm"]),
                target=FBGEMM_TARGET,
            ),
            Figure(
                name="dnn: end to end over FBGEMM",
                values=cpu["ours"],
                unit="rows/CPU s",
                ratios=ratios(cpu["ours"], cpu["fbgemm"]),
            ),
        ]
    return figures


def _speed(train: Callable[[Path], int], part: Path) -> Speed:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    num_rows = train(part)
    return Speed(
        wall=num_rows / (time.perf_counter() - wall_s), cpu=num_rows / (time.process_time() - cpu_s)
    )
