"""How long a step takes while a snapshot of its table is written by another thread."""

# Shape suffixes: N ids of a batch, D width of a row.

import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from torch import nn

from benchmarks.figure import Figure
from benchmarks.store import DIM, LR, NUM_FEATURES, Batches, NativeStep
from fleetrec._native import Cut, Table

TARGET = 1 / 3
HIDDEN = 400
NUM_BATCHES = 64  # so that steps go on finding rows that have not changed since the cut
NUM_CALM_STEPS = 40
NUM_SHARDS = 5

Kind = Literal["base", "delta"]


class Stepper(Protocol):
    """Makes steps with a table."""

    table: Table

    def step(self, number: int) -> None:
        """Make the step of this number."""


def measure(*, batch_size: int, num_rounds: int, num_ids: int) -> list[Figure]:
    """Measure a trainer and a server, in turns with and without a write."""
    batches = Batches(num_ids=num_ids, batch_size=batch_size, num_batches=NUM_BATCHES)
    figures = []
    steppers: Sequence[tuple[str, type[TrainerStep] | type[ServerStep]]] = (
        ("trainer", TrainerStep),
        ("server", ServerStep),
    )
    for name, make in steppers:
        stepper = make(batches)
        for number in range(NUM_BATCHES):
            stepper.step(number)  # to warm up
        with tempfile.TemporaryDirectory() as folder:
            found = [_longest(stepper, Path(folder, str(r)), "base") for r in range(num_rounds)]
            figures.append(saving_figure(f"saving: {name}, base", found))
            found = [_longest(stepper, Path(folder, f"+{r}"), "delta") for r in range(num_rounds)]
            figures.append(saving_figure(f"saving: {name}, delta", found))
        del stepper
    return figures


class TrainerStep(Stepper):
    """Lookup, a network of three layers, and the update of rows, in one process."""

    def __init__(self, batches: Batches) -> None:
        self._store = NativeStep(batches, optimizer="adam")
        self.table = self._store.table
        widths = (NUM_FEATURES * DIM, HIDDEN, HIDDEN, HIDDEN)
        hidden = [
            layer
            for before, after in itertools.pairwise(widths)
            for layer in (nn.Linear(before, after), nn.ReLU())
        ]
        self._network = nn.Sequential(*hidden, nn.Linear(HIDDEN, 1))
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=LR, fused=True)

    def step(self, number: int) -> None:
        """Make a step with one of the batches."""
        vectors = torch.from_numpy(self._store.forward(number % NUM_BATCHES)).requires_grad_()
        self._optimizer.zero_grad()
        self._network(vectors).mean().backward()
        self._optimizer.step()
        assert vectors.grad is not None
        self._store.lookup.apply(vectors.grad.numpy(), lr=LR)


class ServerStep(Stepper):
    """What a server does with its table for one step of a worker: read, count, update."""

    def __init__(self, batches: Batches) -> None:
        store = NativeStep(batches, optimizer="adam")
        self.table = store.table
        self._ids_N = [np.unique(ids_N) for ids_N in store.ids_N]
        rng = np.random.default_rng(0)
        self._grads = [
            rng.normal(0.0, 0.01, (len(ids_N), DIM)).astype(np.float32) for ids_N in self._ids_N
        ]

    def step(self, number: int) -> None:
        """Serve one of the batches."""
        ids_N, grads_ND = self._ids_N[number % NUM_BATCHES], self._grads[number % NUM_BATCHES]
        counts_N = np.ones(len(ids_N), np.uint32)
        self.table.read(ids_N, as_new=True)
        self.table.count_impressions(ids_N, counts_N, counts_N, now=0)
        self.table.push(ids_N, grads_ND, lr=LR)


def _longest(stepper: Stepper, directory: Path, kind: Kind) -> tuple[float, float]:
    """Return seconds of the median step before a write, and of the longest during it."""
    calm = [_seconds(stepper, number) for number in range(NUM_CALM_STEPS)]
    directory.mkdir()
    begin = time.perf_counter()
    cut = Cut(stepper.table)
    steps = [time.perf_counter() - begin]  # the cut itself is a wait, too
    writer = threading.Thread(
        target=cut.write,
        args=(directory,),
        kwargs={"kind": kind, "num_shards": NUM_SHARDS, "num_threads": 1},
    )
    writer.start()
    while writer.is_alive() or len(steps) == 1:
        steps.append(_seconds(stepper, len(steps)))
    writer.join()
    cut.commit()
    return statistics.median(calm), max(steps)


def _seconds(stepper: Stepper, number: int) -> float:
    begin = time.perf_counter()
    stepper.step(number)
    return time.perf_counter() - begin


def saving_figure(name: str, found: Sequence[tuple[float, float]]) -> Figure:
    """Return the figure of rounds, each a median step before a write and the longest during it."""
    return Figure(
        name=f"{name}: median over longest step",
        values=[1e3 * longest for _, longest in found],
        unit="ms",
        ratios=[median / longest for median, longest in found],
        target=TARGET,
    )
