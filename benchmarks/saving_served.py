"""How long a step of a worker takes while its server writes a checkpoint or a snapshot."""

import contextlib
import dataclasses
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.criteo_like import NUM_DENSE, SPARSE, Samples
from benchmarks.figure import Figure
from benchmarks.job import HIDDEN, dataset, dnn_phase
from benchmarks.parameter_server import serving, worker_group
from benchmarks.saving import saving_figure
from benchmarks.served_steps import warm_pages
from fleetrec.checkpoint.publish import publish
from fleetrec.core.batch import Batch
from fleetrec.core.progress import Progress
from fleetrec.data.loader import Loader
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.parallel.state import StateCut
from fleetrec.parallel.worker_group import PsMode
from fleetrec.train.phase import Phase

NUM_BATCHES = 64  # so that steps go on finding rows that have not changed since the cut
NUM_CALM_STEPS = 40
MODES: Sequence[PsMode] = ("sync", "async")

# Of journal for each row, so that the first snapshot is due soon after the table is full.
SNAPSHOT_BYTES_PER_ROW = 150


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """Seconds of steps: before something is written, and meanwhile."""

    calm: Sequence[float]
    during: Sequence[float]

    @property
    def median_and_longest(self) -> tuple[float, float]:
        """Return the median of calm steps, and the longest of the others."""
        return statistics.median(self.calm), max(self.during)


def measure(
    parts: Sequence[Path], *, batch_size: int, num_ids: int, hidden: Sequence[int] = HIDDEN
) -> list[Figure]:
    """Measure one worker and one server in processes of their own, with a journal."""
    figures = []
    batches = list(_read(parts, batch_size=batch_size, num_batches=NUM_BATCHES))
    with tempfile.TemporaryDirectory(prefix="fleetrec-bench-") as folder, flushed_denormals():
        fill = Path(folder, "fill")
        fill.write_text(_every_id(num_ids), encoding="ascii")
        warm_pages(Path(folder))
        for mode in MODES:
            directory = Path(folder, mode)
            with contextlib.ExitStack() as stack:
                limit = int(num_ids * SNAPSHOT_BYTES_PER_ROW)
                server = stack.enter_context(serving(directory, snapshot_bytes=limit))
                group = worker_group(server, mode, pull_ahead=False)
                stack.callback(group.close, finished=False)
                phase = dnn_phase(
                    parts[0], batch_size=batch_size, hidden=hidden, group=group, num_ids=num_ids
                )
                worker = Worker(phase, directory, batches)
                for batch in _read([fill], batch_size=batch_size):
                    worker.train(batch)
                checkpoints = Path(folder, f"{mode}-checkpoints")
                found = {
                    "own snapshot": worker.own_snapshot(),
                    "base": worker.checkpoint(checkpoints / "base", parent=None),
                    "delta": worker.checkpoint(checkpoints / "delta", parent="base"),
                }
            figures += [
                saving_figure(f"saving: 1 + 1, {mode}, {kind}", [one.median_and_longest])
                for kind, one in found.items()
            ]
    return figures


class Worker:
    """Makes steps, and times them."""

    def __init__(self, phase: Phase, server: Path, batches: Sequence[Batch]) -> None:
        self._phase = phase
        self._server = server  # the folder of the server's state
        self._batches = itertools.cycle(batches)
        self._progress = Progress()

    def train(self, batch: Batch) -> None:
        """Make a step: pull, compute, push."""
        self._progress = self._progress.after_batch(batch.cursor)
        self._phase.stepper.train(batch, progress=self._progress)

    def own_snapshot(self) -> Found:
        """Make steps until the server has replaced its journal by a snapshot."""
        newest = self._newest_snapshot()
        calm = [self._step() for _ in range(2)]
        during: list[float] = []
        while self._newest_snapshot() == newest:
            was_saving = self._is_saving()
            seconds = self._step()
            (during if was_saving or self._is_saving() else calm).append(seconds)
        return Found(calm=calm[-NUM_CALM_STEPS:], during=during or calm[-1:])

    def checkpoint(self, directory: Path, *, parent: str | None) -> Found:
        """Save as a training run does: cut between two steps, write and commit beside them."""
        while self._is_saving():
            self._step()
        calm = [self._step() for _ in range(NUM_CALM_STEPS)]
        begin = time.perf_counter()
        cut = self._phase.state.cut(parent=parent)
        during = [time.perf_counter() - begin]  # the cut itself is a wait, too
        writer = threading.Thread(target=_write, args=(cut, directory))
        writer.start()
        while writer.is_alive() or len(during) == 1:
            during.append(self._step())
        writer.join()
        return Found(calm=calm, during=during)

    def _step(self) -> float:
        batch = next(self._batches)
        begin = time.perf_counter()
        self.train(batch)
        return time.perf_counter() - begin

    def _newest_snapshot(self) -> str:
        return max((path.name for path in self._server.glob("snapshot-*")), default="")

    def _is_saving(self) -> bool:
        return any(self._server.glob(".snapshot-*"))


def _write(cut: StateCut, directory: Path) -> None:
    publish(directory, lambda staging: _check(cut.write(str(staging))))
    cut.finish(published=True)


def _check(records: object) -> None:
    assert records, "no table was written"


def _read(
    parts: Sequence[Path], *, batch_size: int, num_batches: int | None = None
) -> Iterator[Batch]:
    def read(part: Path) -> Iterator[Batch]:
        with Loader(dataset(part, batch_size=batch_size), seed=0).epoch(0) as batches:
            yield from batches

    return itertools.islice(itertools.chain.from_iterable(map(read, parts)), num_batches)


def _every_id(num_ids: int) -> str:
    """Return samples in which every id of the table occurs."""
    num_samples = -(-num_ids // len(SPARSE))
    ids = np.arange(num_samples * len(SPARSE)) % num_ids
    samples = Samples(
        labels=np.zeros(num_samples, np.int64),
        dense=[np.zeros(num_samples)] * NUM_DENSE,
        ids=list(ids.reshape(len(SPARSE), num_samples)),
    )
    return samples.to_text(0, num_samples)
