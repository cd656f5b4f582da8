"""A live bar on a terminal; nothing at all elsewhere, where logs are grepped."""

from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fleetrec.cli.logs import shared_console
from fleetrec.train.events import Interval, PassDone, QuietObserver, StepInfo


class ProgressObserver(QuietObserver):
    """Shows how far the run is, its rate, and the last metrics."""

    def __init__(self, title: str) -> None:
        console = shared_console()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(title, total=1.0, metrics="")
        self._title = title

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, info: StepInfo) -> None:
        """Move the bar."""
        name = f"pass {info.pass_name}" if info.pass_name else f"epoch {info.epoch}"
        where = f"{self._title} {name} batch {info.batch}"
        self._progress.update(self._task, completed=info.fraction, description=where)

    def interval(self, interval: Interval) -> None:
        """Show the metrics of an interval."""
        wanted = [n for n in interval.metrics if n.startswith(("AUC", "LOSS"))]
        metrics = [f"{name} {interval.metrics[name]:.4f}" for name in wanted]
        text = "  ".join([f"{interval.samples_per_s:,.0f} samples/s", *metrics])
        self._progress.update(self._task, metrics=text)

    def pass_done(self, done: PassDone) -> None:
        """Leave it to the log."""

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Leave it to the log."""
