"""One pass over the data of a phase, whether it learns or only looks."""

import dataclasses
import logging
from collections.abc import Callable, Iterator

from fleetrec.config.job import RunOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.parallel.strategy import Step, Strategy
from fleetrec.train.dump import open_dump
from fleetrec.train.events import Kind, Observer, PassDone, Place
from fleetrec.train.pace import Clock, Pace
from fleetrec.train.phase import PhaseRun
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a run gets from outside: time, identity, watchers, and the wish that it stop."""

    clock: Clock
    run_id: str
    folder: RunFolder
    observer: Observer
    should_stop: Callable[[], bool] = lambda: False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pass:
    """Reads batches, hands them to ``process``, counts and reports what comes out."""

    kind: Kind
    run: RunOptions
    around: Surroundings
    phase: PhaseRun
    epoch_name: str
    dump_path: str | None
    process: Callable[[Batch], Step]
    place_of: Callable[[Batch], Place]
    after: Callable[[Batch], None]
    is_over: Callable[[], bool] = lambda: False
    num_before: int = 0  # passes of the same epoch, in an inference

    def go(self, *, epoch: int, start: Cursor | None) -> dict[str, float]:
        """Make the pass from ``start`` on and return its figures."""
        phase, clock = self.phase, self.around.clock
        if self.dump_path is not None and start is not None:
            logger.warning("%s will hold only what is left of the epoch", self.dump_path)
        pace = Pace(clock)
        begin, num_samples = clock(), 0
        with (
            flushed_denormals(),
            phase.loader.epoch(epoch, start=start) as batches,
            open_dump(self.dump_path, phase.model) as dump,
        ):
            own = phase.strategy.together(self._told(batches), phase.loader.inputs)
            for batch in pace.timed(own):
                step = self.process(batch)
                if not batch.is_blank:
                    phase.scoreboard.count(step.outputs, batch, step.loss)
                    dump.write(step.outputs, batch)
                    num_samples += batch.num_samples
                self._tell(batch, pace, lr=step.lr)
                self.after(batch)
                if self.is_over():
                    break
        self._warn_of_slots()
        if self.kind == "train":
            phase.strategy.end_pass(epoch=epoch)
        self._merge_workers(epoch)
        figures = phase.scoreboard.figures()
        phase.scoreboard.reset()
        seconds = max(clock() - begin, 1e-9)
        self.around.observer.pass_done(
            PassDone(
                kind=self.kind,
                phase=phase.options.name,
                epoch=self.epoch_name,
                seconds=seconds,
                samples_per_s=num_samples / seconds,
                figures=figures,
                tables=phase.strategy.table_stats(),
            )
        )
        return figures

    def _told(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        return told_ahead(batches, self.phase.strategy) if self.kind == "train" else batches

    def _merge_workers(self, epoch: int) -> None:
        """Count what all workers have counted."""
        scoreboard = self.phase.scoreboard
        name = f"{self.kind}/{self.epoch_name}/metrics"
        number = epoch + self.num_before + 1
        brought = self.phase.strategy.gather(name, scoreboard.to_bytes(), number=number)
        scoreboard.load_sum(brought)

    def _tell(self, batch: Batch, pace: Pace, *, lr: float | None) -> None:
        place = self.place_of(batch)
        pace.count(place, num_samples=batch.num_samples)
        self.around.observer.step(place)
        if self._ends_interval(place):
            figures = self.phase.scoreboard.end_interval()
            if lr is not None and self.run.save.rolling is not None:
                figures["lr"] = lr
            tables = self.phase.strategy.table_stats()
            costs = self.run.show_costs
            interval = pace.end_interval(place, figures, tables=tables, costs=costs)
            waiting = self.phase.strategy.num_waiting()
            self.around.observer.interval(dataclasses.replace(interval, num_waiting=waiting))
        if self.phase.loader.report.is_due():
            self._warn_of_slots()

    def _ends_interval(self, place: Place) -> bool:
        """Tell whether figures are due: by batches of an epoch, or by steps of the whole run."""
        run = self.run
        if run.save.rolling is None or self.kind == "infer":
            return place.batch > 0 and place.batch % run.print_interval == 0
        intervals = [run.print_interval, *filter(None, [run.summary_interval])]
        return any((place.step + 1) % interval == 0 for interval in intervals)

    def _warn_of_slots(self) -> None:
        labels = [task.label for task in self.phase.model.tasks]
        for warning in self.phase.loader.report.take_warnings(labels):
            logger.warning("data set %s: %s", self.phase.options.dataset.name, warning)


def told_ahead(batches: Iterator[Batch], strategy: Strategy) -> Iterator[Batch]:
    """Yield the batches; a strategy that looks ahead is told of each one batch before."""
    if not strategy.looks_ahead:
        yield from batches
        return
    current = next(batches, None)
    while current is not None:
        upcoming = next(batches, None)
        if upcoming is not None:
            strategy.expect(upcoming)
        yield current
        current = upcoming
