"""The table store alone: lookup, gradient and update of one batch, against PyTorch and FBGEMM."""

# Shape suffixes: N ids of a batch, D width of a row, F features.

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from benchmarks import fbgemm
from benchmarks.figure import Figure, ratios
from fleetrec._native import BatchLookup, LogRecord, Table, TableLog, drop_segments

NUM_FEATURES = 26
NUM_IDS = 5_000_000
DIM = 16
TORCH_TARGET = 4.0
FBGEMM_TARGET = 1.0
LOG_TARGET = 0.8

GROWTH_DIM = 8
GROWTH_ROWS = 20_000_000
GROWTH_TARGET = 1 / 20
GROWTH_BATCH = 100_000

LR = 0.01
ZIPF_EXPONENT = 1.1
NUM_BATCHES = 8
STEPS_PER_ROUND = 8

Ids = npt.NDArray[np.int64]


class Contender(Protocol):
    """One way to make a step: pooled vectors forward, a gradient back, rows updated."""

    def prepare(self) -> None:
        """Get ready for a round; not timed."""
        return

    def step(self, batch: int) -> None:
        """Make a step with one of the batches."""


def measure(
    *,
    batch_size: int,
    num_rounds: int,
    num_ids: int = NUM_IDS,
    growth_rows: int = GROWTH_ROWS,
    say: Callable[[str], None] = print,
) -> list[Figure]:
    """Measure steps in turns, contender beside contender, then the growth of a table."""
    batches = Batches(num_ids=num_ids, batch_size=batch_size)
    figures = []
    for optimizer, make_torch in (("adam", sparse_adam), ("adagrad", adagrad)):
        ours = NativeStep(batches, optimizer=optimizer)
        theirs = EmbeddingBagStep(batches, make_torch)
        name = f"store: {optimizer} over torch"
        figures.append(_compare(name, (ours, theirs), batches, num_rounds, target=TORCH_TARGET))
        del ours, theirs
    if not fbgemm.is_installed():
        say(f"store: FBGEMM is not installed, so it is left out; {fbgemm.INSTALL}")
    else:
        pair = (NativeStep(batches, optimizer="rowwise_adagrad", static=True), FbgemmStep(batches))
        name = "store: rowwise_adagrad over FBGEMM"
        figures.append(_compare(name, pair, batches, num_rounds, target=FBGEMM_TARGET))
    with tempfile.TemporaryDirectory() as folder:
        plain = NativeStep(batches, optimizer="adam")
        logged = LoggedStep(plain, Path(folder))
        name = "store: adam, log over no log"
        figures.append(_compare(name, (logged, plain), batches, num_rounds, target=LOG_TARGET))
    return [*figures, measure_growth(num_rows=growth_rows)]


def measure_growth(*, num_rows: int) -> Figure:
    """Fill a table with new ids, batch by batch; the ratio is median over longest batch."""
    table = new_table(dim=GROWTH_DIM, optimizer="rowwise_adagrad")
    lookup = BatchLookup([table], [(0, 0, "sum")], [])
    batch = min(GROWTH_BATCH, max(1, num_rows // 10))
    offsets = np.arange(batch + 1)
    seconds = []
    for first in range(0, num_rows, batch):
        ids_N = scatter_ids(np.arange(first, first + batch))
        begin = time.perf_counter()
        lookup.find(ids_N, offsets, batch, training=True)
        seconds.append(time.perf_counter() - begin)
    return Figure(
        name="store: growth, median over longest batch",
        values=[batch / statistics.median(seconds)],
        unit="rows/s",
        ratios=[statistics.median(seconds) / max(seconds)],
        target=GROWTH_TARGET,
    )


class Batches:
    """Some batches of one id per sample and feature, drawn from one power law per feature."""

    def __init__(self, *, num_ids: int, batch_size: int, num_batches: int = NUM_BATCHES) -> None:
        self.num_ids = num_ids
        self.batch_size = batch_size
        rng = np.random.default_rng(0)
        per_feature = num_ids // NUM_FEATURES
        shape = (num_batches, NUM_FEATURES, batch_size)
        local = _power_law(rng.random(shape), per_feature)
        firsts = np.arange(NUM_FEATURES)[:, None] * per_feature
        # Hot ids lie anywhere in the range of their feature.
        places = np.stack([rng.permutation(per_feature) for _ in range(NUM_FEATURES)])
        drawn = places[np.arange(NUM_FEATURES)[:, None], local] + firsts
        self.ids_N: Sequence[Ids] = list(drawn.reshape(num_batches, -1))
        self.offsets = np.arange(NUM_FEATURES * batch_size + 1)
        self.grads = torch.from_numpy(
            rng.normal(0.0, 0.01, (batch_size, NUM_FEATURES * DIM)).astype(np.float32)
        )


class NativeStep(Contender):
    """Our table: of hashed 64-bit ids, or of a range that numbers the rows."""

    def __init__(self, batches: Batches, *, optimizer: str, static: bool = False) -> None:
        self._batches = batches
        num_rows = batches.num_ids if static else None
        self.ids_N = [ids_N if static else scatter_ids(ids_N) for ids_N in batches.ids_N]
        self.table = new_table(dim=DIM, optimizer=optimizer, num_rows=num_rows)
        # As the others, with every row there before the first step.
        everything = np.arange(batches.num_ids)
        self.table.pull(everything if static else scatter_ids(everything), create=True)
        self.lookup = BatchLookup([self.table], [(f, 0, "sum") for f in range(NUM_FEATURES)], [])
        self.grads = batches.grads.numpy()

    def step(self, batch: int) -> None:
        """Make a step with one of the batches."""
        self.forward(batch)
        self.lookup.apply(self.grads, lr=LR)

    def forward(self, batch: int) -> npt.NDArray[np.float32]:
        """Find the rows of one of the batches and return the pooled vectors."""
        size = self._batches.batch_size
        self.lookup.find(self.ids_N[batch], self._batches.offsets, size, training=True)
        vectors = np.empty_like(self.grads)
        self.lookup.pool(vectors)
        return vectors


class LoggedStep(Contender):
    """The same table, every step in a log and safe from the death of the process.

    A segment holds the steps of a round; the one before is dropped, as behind a snapshot. So the
    log lives in pages that the system has given out before, as that of a long run does.
    """

    def __init__(self, plain: NativeStep, folder: Path) -> None:
        self._plain = plain
        self._folder = folder
        self._segment = folder / "1"
        self._log = TableLog(self._segment, [plain.table])

    def prepare(self) -> None:
        """Start a segment and drop the one before."""
        first_lsn = self._log.last_lsn + 1
        before, self._segment = self._segment, self._folder / f"from-{first_lsn}"
        self._log = TableLog(self._segment, [self._plain.table], first_lsn=first_lsn)
        drop_segments([before, self._segment], first_lsn - 1)

    def step(self, batch: int) -> None:
        """Make a step with one of the batches."""
        self._plain.forward(batch)
        self._plain.lookup.apply_keeping_grads(self._plain.grads, lr=LR)
        record = LogRecord()
        record.add_lookup(self._plain.lookup, [0], now=0, lr=LR)
        self._log.append(record)
        self._log.commit("process")


class EmbeddingBagStep(Contender):
    """One sparse EmbeddingBag that all features share: faster than one bag per feature."""

    def __init__(
        self, batches: Batches, optimizer: Callable[[Tensor], torch.optim.Optimizer]
    ) -> None:
        # Off anyway; torch warns unless it is said.
        torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
        self._ids_N = [torch.from_numpy(ids_N) for ids_N in batches.ids_N]
        self._offsets = torch.from_numpy(batches.offsets[:-1])
        # One vector per feature and sample, the features outermost.
        self._grads_ND = (
            batches.grads.view(-1, NUM_FEATURES, DIM).transpose(0, 1).reshape(-1, DIM).contiguous()
        )
        self.bag = nn.EmbeddingBag(batches.num_ids, DIM, mode="sum", sparse=True)
        self._optimizer = optimizer(self.bag.weight)

    def step(self, batch: int) -> None:
        """Make a step with one of the batches."""
        vectors_ND = self.bag(self._ids_N[batch], self._offsets)
        self._optimizer.zero_grad(set_to_none=True)
        vectors_ND.backward(self._grads_ND)
        self._optimizer.step()


class FbgemmStep(Contender):
    """FBGEMM's table-batched embedding: the update is fused into the backward pass."""

    def __init__(self, batches: Batches) -> None:
        self._bags = fbgemm.new_bags(
            num_ids=batches.num_ids, dim=DIM, num_features=NUM_FEATURES, lr=LR
        )
        self._ids_N = [torch.from_numpy(ids_N) for ids_N in batches.ids_N]
        self._offsets = torch.from_numpy(batches.offsets)
        self._grads: Tensor = batches.grads

    def step(self, batch: int) -> None:
        """Make a step with one of the batches."""
        self._bags(self._ids_N[batch], self._offsets).backward(self._grads)


def new_table(*, dim: int, optimizer: str, num_rows: int | None = None) -> Table:
    """Return an empty table that admits every id."""
    return Table(
        name="bench",
        dim=dim,
        num_rows=num_rows,
        salt=1,
        initial=("uniform", 0.0, 0.01),
        optimizer=optimizer,
        hyperparameters={},
        guards={},
        admission=("always", 1.0, 0.1, 1.0),
    )


def scatter_ids(ids_N: Ids) -> Ids:
    """Make 64-bit ids of small ones, as a hash of strings does; different ids stay different."""
    return ids_N * np.int64(-7046029254386353131)


def sparse_adam(weight: Tensor) -> torch.optim.Optimizer:
    """Return PyTorch's Adam for sparse gradients."""
    return torch.optim.SparseAdam([weight], lr=LR)


def adagrad(weight: Tensor) -> torch.optim.Optimizer:
    """Return PyTorch's Adagrad, which takes sparse gradients, too."""
    return torch.optim.Adagrad([weight], lr=LR, eps=1e-6)


def _compare(
    name: str,
    pair: tuple[Contender, Contender],
    batches: Batches,
    num_rounds: int,
    *,
    target: float,
) -> Figure:
    speeds: tuple[list[float], list[float]] = ([], [])
    for contender in pair:
        contender.step(0)
    for _ in range(num_rounds):
        for contender, found in zip(pair, speeds, strict=True):
            contender.prepare()
            begin = time.perf_counter()
            for i in range(STEPS_PER_ROUND):
                contender.step(i % NUM_BATCHES)
            found.append(STEPS_PER_ROUND * batches.batch_size / (time.perf_counter() - begin))
    ours, theirs = speeds
    return Figure(name=name, values=ours, unit="rows/s", ratios=ratios(ours, theirs), target=target)


def _power_law(uniform: npt.NDArray[np.float64], cardinality: int) -> Ids:
    """Turn uniform numbers into ranks from 0 with P(rank r) ~ (r + 1)^-a."""
    exponent = 1 - ZIPF_EXPONENT
    ranks = (1 + uniform * (float(cardinality + 1) ** exponent - 1)) ** (1 / exponent)
    drawn: Ids = np.clip(ranks.astype(np.int64), 1, cardinality) - 1
    return drawn
