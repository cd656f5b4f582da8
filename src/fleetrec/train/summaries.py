"""Curves for TensorBoard."""

import contextlib
import importlib.util
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from fleetrec.config.job import RunOptions
from fleetrec.train.events import Interval, Observer, PassDone, QuietObserver, StepInfo
from fleetrec.train.online_metrics import EVALUATED, metrics_named

logger = logging.getLogger(__name__)

EVALUATION = "eval_val"
TABLE_CURVES = (
    ("rows", "rows"),
    ("created", "created"),
    ("evicted", "evicted"),
    ("candidates", "waiting"),
)


class Writer(Protocol):
    """The part of TensorBoard's writer that is used here."""

    def add_scalar(
        self, tag: str, scalar_value: float, global_step: int, walltime: float | None = None
    ) -> None:
        """Write one number, of now or of another time."""
        ...

    def flush(self) -> None:
        """Let readers see it."""
        ...


class SummaryObserver(QuietObserver):
    """Writes event files: of training into a folder, of evaluations into one below it."""

    def __init__(self, *, interval: int, training: Writer, evaluation: Writer) -> None:
        self._interval = interval
        self._training = training
        self._evaluation = evaluation
        self._step = 0

    def step(self, info: StepInfo) -> None:
        """Remember the step, at which evaluations are plotted."""
        self._step = info.step + 1

    def interval(self, interval: Interval) -> None:
        """Write the metrics of training."""
        if self._step % self._interval == 0:
            lr = {} if interval.lr is None else {"lr": interval.lr}
            rate = {"samples_per_s": interval.samples_per_s}
            _write(self._training, {**interval.metrics, **lr, **rate}, self._step)

    def pass_done(self, done: PassDone) -> None:
        """Write the metrics of an evaluation."""
        if done.kind == "infer":
            _write(self._evaluation, done.metrics, self._step)


class OnlineSummaryObserver(QuietObserver):
    """Writes curves of an online run over event time; the step is the index of the pass."""

    def __init__(self, writer: Writer, *, num_phases: int) -> None:
        self._writer = writer
        self._num_phases = num_phases

    def pass_done(self, done: PassDone) -> None:
        """Write the metrics of a pass."""
        if done.event_time is None or done.index is None:
            return
        suffix = f"/{done.phase}" if self._num_phases > 1 else ""
        values: dict[str, float]
        if done.kind == "infer":
            found = metrics_named(done.metrics, EVALUATED)
            values = {f"eval/{name}{suffix}": value for name, value in found.items()}
        else:
            found = metrics_named(done.metrics, ("LOSS",))
            values = {f"train/{name}{suffix}": value for name, value in found.items()}
            for table, stats in done.tables.items():
                for key, shown in TABLE_CURVES:
                    values[f"table/{table}/{shown}{suffix}"] = stats[key]
            if done.delay_s is not None:
                values[f"delay_s{suffix}"] = done.delay_s
        for name, value in values.items():
            if math.isfinite(value):
                self._writer.add_scalar(name, value, done.index, walltime=done.event_time)
        self._writer.flush()


@contextlib.contextmanager
def open_summaries(folder: Path, run: RunOptions) -> Iterator[tuple[Observer, ...]]:
    """Open the observer that a run asks for, if TensorBoard is installed; closes its files."""
    if run.summary_interval is None and run.online is None:
        yield ()
        return
    if importlib.util.find_spec("tensorboard") is None:
        level = logging.INFO if run.summary_interval is None else logging.WARNING  # not asked for
        logger.log(level, "no curves are written: pip install 'fleetrec[tensorboard]'")
        yield ()
        return
    from torch.utils.tensorboard import SummaryWriter

    if run.online is not None:
        with SummaryWriter(str(folder)) as writer:
            yield (OnlineSummaryObserver(writer, num_phases=len(run.phases)),)
        return
    assert run.summary_interval is not None
    with (
        SummaryWriter(str(folder)) as training,
        SummaryWriter(str(folder / EVALUATION)) as evaluation,
    ):
        yield (
            SummaryObserver(
                interval=run.summary_interval, training=training, evaluation=evaluation
            ),
        )


def _write(writer: Writer, metrics: Mapping[str, float], step: int) -> None:
    for name, value in metrics.items():
        writer.add_scalar(name, value, step)
    writer.flush()
