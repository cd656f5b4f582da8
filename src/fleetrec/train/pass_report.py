"""Reports steps, intervals and the end of one pass to the observer of a run."""

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping

from fleetrec.config.job import RunOptions
from fleetrec.core.batch import Batch
from fleetrec.data.loader import Loader
from fleetrec.train.context import RunContext
from fleetrec.train.events import PassDone, PassKind, StepInfo
from fleetrec.train.pass_plan import PassSpec
from fleetrec.train.phase import Phase
from fleetrec.train.throughput import Throughput

logger = logging.getLogger(__name__)

MIN_SECONDS = 1e-9  # a rate needs some time


class PassReport:
    """Measures one pass of one phase, and reports it."""

    def __init__(
        self, kind: PassKind, phase: Phase, loader: Loader, run: RunOptions, context: RunContext
    ) -> None:
        self._kind: PassKind = kind
        self._phase = phase
        self._loader = loader
        self._run = run
        self._context = context
        self._throughput = Throughput(context.clock)
        self._begin = context.clock()
        self._num_samples = 0

    def timed(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches, counting the time spent waiting for them."""
        return self._throughput.timed(batches)

    def step(self, info: StepInfo, batch: Batch, *, lr: float | None) -> None:
        """Report a step, and the interval if it ends with this step."""
        self._num_samples += 0 if batch.is_blank else batch.num_samples
        self._throughput.count(info, num_samples=batch.num_samples)
        self._context.observer.step(info)
        if self._ends_interval(info):
            interval = self._throughput.end_interval(
                info,
                self._phase.metrics.end_interval(),
                tables=self._phase.state.stats(),
                costs=self._run.show_costs,
            )
            pending = self._phase.stepper.num_pending_pushes()
            self._context.observer.interval(
                dataclasses.replace(interval, lr=lr, num_pending_pushes=pending)
            )
        if self._loader.report.is_due():
            self.warn_of_slots()

    def done(
        self, name: str, metrics: Mapping[str, float], *, spec: PassSpec | None = None
    ) -> None:
        """Report the end of the pass; ``spec`` is that of an online run."""
        seconds = max(self._context.clock() - self._begin, MIN_SECONDS)
        done = PassDone(
            kind=self._kind,
            phase=self._phase.name,
            epoch=name,
            seconds=seconds,
            samples_per_s=self._num_samples / seconds,
            metrics=metrics,
            tables=self._phase.state.stats(),
        )
        self._context.observer.pass_done(done if spec is None else self._with_data(done, spec))

    def _with_data(self, done: PassDone, spec: PassSpec) -> PassDone:
        """Add which data a pass of an online run has, and how long ago that arrived."""
        arrived_at = spec.arrived_at
        delay_s = None if arrived_at is None else max(0.0, self._context.now() - arrived_at)
        return dataclasses.replace(
            done,
            event_time=spec.event_time,
            index=spec.index,
            arrived_at=arrived_at,
            delay_s=delay_s,
        )

    def warn_of_slots(self) -> None:
        """Warn of declared slots that never occur, and of others that do."""
        labels = [task.label for task in self._phase.model.tasks if task.label]
        for warning in self._loader.report.take_warnings(labels):
            logger.warning("data set %s: %s", self._phase.options.dataset.name, warning)

    def _ends_interval(self, info: StepInfo) -> bool:
        """Return whether an interval ends: by batches of a pass, or by steps of the run."""
        run = self._run
        if run.log_style == "epochs" or self._kind == "infer":
            return info.batch > 0 and info.batch % run.print_interval == 0
        intervals = [run.print_interval, *filter(None, [run.summary_interval])]
        return any((info.step + 1) % interval == 0 for interval in intervals)
