"""Curves for TensorBoard."""

import contextlib
import importlib.util
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from fleetrec.config.job import RunOptions
from fleetrec.train.events import Interval, Observer, PassDone, Place

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


class SummaryObserver:
    """Writes event files: of training into a folder, of evaluations into one below it."""

    def __init__(self, *, interval: int, training: Writer, judging: Writer) -> None:
        self._interval = interval
        self._training = training
        self._judging = judging
        self._step = 0

    def step(self, place: Place) -> None:
        """Note the step, which evaluations are plotted at."""
        self._step = place.step + 1

    def interval(self, interval: Interval) -> None:
        """Write the figures of training."""
        if self._step % self._interval == 0:
            figures = {**interval.figures, "samples_per_s": interval.samples_per_s}
            _write(self._training, figures, self._step)

    def pass_done(self, done: PassDone) -> None:
        """Write the figures of an evaluation."""
        if done.kind == "infer":
            _write(self._judging, done.figures, self._step)

    def saved(self, what: str, path: str, *, epoch: int) -> None:
        """Write nothing."""


@contextlib.contextmanager
def open_summaries(folder: Path, run: RunOptions) -> Iterator[tuple[Observer, ...]]:
    """Give the observer that a run asks for, if TensorBoard is there, and close its files."""
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
        SummaryWriter(str(folder / EVALUATION)) as judging,
    ):
        yield (SummaryObserver(interval=run.summary_interval, training=training, judging=judging),)


def _write(writer: Writer, figures: Mapping[str, float], step: int) -> None:
    for name, value in figures.items():
        writer.add_scalar(name, value, step)
    writer.flush()
