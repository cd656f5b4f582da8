"""Curves for TensorBoard."""

import contextlib
import importlib.util
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from fleetrec.config.job import RunOptions
from fleetrec.train.events import Interval, Observer, PassDone, QuietObserver, StepInfo

logger = logging.getLogger(__name__)

EVALUATION = "eval_val"


class Writer(Protocol):
    """The part of TensorBoard's writer that is used here."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Write one number."""
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


@contextlib.contextmanager
def open_summaries(folder: Path, run: RunOptions) -> Iterator[tuple[Observer, ...]]:
    """Open the observer that a run asks for, if TensorBoard is installed; closes its files."""
    if run.summary_interval is None:
        yield ()
        return
    if importlib.util.find_spec("tensorboard") is None:
        logger.warning("no curves are written: pip install 'fleetrec[tensorboard]'")
        yield ()
        return
    from torch.utils.tensorboard import SummaryWriter

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
