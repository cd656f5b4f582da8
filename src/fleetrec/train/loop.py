"""The training loop: passes, in each pass the phases, in each phase the batches."""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from fleetrec.config.job import RunOptions
from fleetrec.core.batch import Batch
from fleetrec.core.fault_points import fault_point
from fleetrec.core.progress import Progress
from fleetrec.data.loader import Loader
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.parallel.group import Group
from fleetrec.parallel.stepper import Stepper, StepResult
from fleetrec.tasks.grouped import with_group_auc
from fleetrec.train.context import RunContext, StoppedError, StopRequestedError
from fleetrec.train.dump import open_dump
from fleetrec.train.evaluate import evaluate_pass, merge_metrics, no_samples
from fleetrec.train.events import StepInfo
from fleetrec.train.metric_journal import MetricJournal, journal_path
from fleetrec.train.metrics import PassMetrics
from fleetrec.train.pass_plan import PassPlan, PassSpec
from fleetrec.train.pass_report import PassReport
from fleetrec.train.phase import Phase
from fleetrec.train.read_ahead import ReadAhead
from fleetrec.train.rules import Rules

logger = logging.getLogger(__name__)


class Loop:
    """Makes the passes of a plan, and asks the rules after every step and every pass."""

    def __init__(
        self,
        phases: Sequence[Phase],
        group: Group,
        plan: PassPlan,
        rules: Rules,
        context: RunContext,
        *,
        run: RunOptions,
    ) -> None:
        self._phases = phases
        self._group = group
        self._plan = plan
        self._rules = rules
        self._context = context
        self._run = run
        self._journals = _journals(context.journal, phases)
        self._progress = Progress()
        self._is_ended = False  # by a rule, on every process
        self._evaluated: set[tuple[int, int]] = set()  # passes and phases, before a resume
        self._read_ahead = ReadAhead(plan, run.online)

    @property
    def progress(self) -> Progress:
        """Return the progress so far."""
        return self._progress

    def begin(
        self,
        progress: Progress,
        *,
        is_restarted: bool = False,
        by_worker: Sequence[Progress] = (),
    ) -> None:
        """Set where to continue.

        ``is_restarted``: this process replaces one that had come there, whose metrics it takes.
        ``by_worker`` is where the workers of a resumed run start, if each has its own progress.
        """
        self._progress = progress
        self._evaluated = {
            (its.pass_index, its.phase) for its in by_worker if its.cursor is not None
        }
        for index, phase in enumerate(self._phases):
            journal = self._journals.get(phase.name)
            if journal is None:
                continue
            if is_restarted and index == progress.phase:
                journal.restore(progress)
            elif index == progress.phase:
                journal.begin(progress)
            else:
                journal.clear()

    def run(
        self, *, is_resumed: bool = False, make_passes: Callable[[], None] | None = None
    ) -> Progress:
        """Make all passes from here on; raises StoppedError if the run is interrupted.

        ``is_resumed``: rules that were due here may not have been followed yet. ``make_passes``
        calls ``run_pass`` for the passes that it wants; by default the plan says which come next.
        """
        with self._stopping():
            self._begin_rules(is_resumed=is_resumed)
            if self._has_all_steps():
                logger.info("all %d steps are done already", self._progress.step)
            num_before = self._progress.pass_index
            (make_passes or self._make_planned_passes)()
            if self._progress.pass_index == num_before and not self._is_over():
                unit = "epochs" if self._run.online is None else "passes"
                logger.info("all %d %s are done already", num_before, unit)
            self._rules.end(self._progress)
        return self._progress

    def _make_planned_passes(self) -> None:
        while not self._is_over() and (spec := self._plan.next(self._progress)) is not None:
            self.run_pass(spec)

    def run_pass(self, spec: PassSpec) -> dict[str, dict[str, float]]:
        """Make one pass, or what is left of it; returns the metrics of all processes by phase."""
        metrics: dict[str, dict[str, float]] = {}
        while self._progress.phase < len(self._phases):
            phase = self._phases[self._progress.phase]
            metrics[phase.name] = self._run_phase(phase, spec)
            if self._is_over():
                return metrics
            self._progress = self._progress.next_phase()
        self._progress = self._progress.next_pass()
        self._rules.after_pass(self._progress, metrics)
        # No process continues before the state of this step is fixed, and all end if one does.
        flag = b"1" if self._rules.should_end else b""
        flags = self._group.all_gather(flag, key="pass_done", pass_index=spec.index)
        self._is_ended = any(flags)
        return metrics

    def close(self, *, finished: bool) -> None:
        """Close the journals; they are deleted if the run is ``finished``."""
        self._read_ahead.close()
        for journal in self._journals.values():
            if finished:
                journal.clear()
            else:
                journal.close()

    def _begin_rules(self, *, is_resumed: bool) -> None:
        if is_resumed:
            self._rules.resume(self._progress)
        elif self._progress.step == 0:
            self._rules.begin(self._progress)
        flag = b"1" if self._rules.should_end else b""
        self._is_ended = any(self._group.all_gather(flag, key="rules", pass_index=None))

    def _run_phase(self, phase: Phase, spec: PassSpec) -> dict[str, float]:
        loader, start = self._loader_of(phase, spec), self._progress.cursor
        if start is None:
            self._evaluate_first(phase, spec, loader)
        self._read_ahead.start(phase, spec.index + 1)
        dump_path = self._dump_path(phase, spec)
        if dump_path is not None and start is not None:
            logger.warning("%s will hold only what is left of the epoch", dump_path)
        report = PassReport("train", phase, loader, self._run, self._context)
        with (
            flushed_denormals(),
            loader.epoch(spec.index, start=start, event_time=spec.event_time) as batches,
            open_dump(dump_path, phase.model) as dump,
        ):
            own = self._group.align_steps(with_prefetch(batches, phase.stepper), loader.inputs)
            for batch in report.timed(own):
                result = self._train(phase, batch)
                if not batch.is_blank:
                    dump.write(result.outputs, batch)
                report.step(self._info(phase, batch, spec), batch, lr=result.lr)
                self._progress = self._progress.after_batch(batch.cursor)
                self._after_step(batch)
                if self._is_over():
                    break
        report.warn_of_slots()
        fault_point("pass_trained")
        phase.stepper.end_pass(spec.index, now=spec.eviction_time, ends_day=spec.ends_day)
        fault_point("evicted")
        key = f"train/{phase.name}/metrics"
        merge_metrics(phase.metrics, self._group, key=key, pass_index=spec.index)
        if self._run.online is None and not phase.metrics.has_samples:
            raise no_samples(loader)  # and no checkpoint of it
        metrics = phase.metrics.values()
        phase.metrics.reset()
        report.done(spec.name, metrics, spec=spec if self._run.online else None)
        return metrics

    def _loader_of(self, phase: Phase, spec: PassSpec) -> Loader:
        return self._read_ahead.take(phase, spec) or phase.loader_of(spec)

    def _evaluate_first(self, phase: Phase, spec: PassSpec, loader: Loader) -> None:
        """Evaluate the samples of a pass before they are trained on, if the run asks for it.

        No process trains before all have evaluated: the metrics are merged first. So if one has
        trained before a resume, all had evaluated.
        """
        online = self._run.online
        if online is None or not online.evaluate_first:
            return
        if (spec.index, self._progress.phase) in self._evaluated:
            return
        if spec.evaluation_files:
            loader = phase.open_files(spec.evaluation_files[phase.name])
        if not loader.files:
            return
        tasks = [with_group_auc(task, online.group_by) for task in phase.model.tasks]
        evaluate_pass(
            phase,
            self._group,
            loader,
            PassMetrics(tasks),
            self._context,
            name=spec.name,
            epoch=spec.index,
            key=f"evaluate/{phase.name}",
            pass_index=spec.index,
            event_time=spec.event_time,
            may_be_empty=True,
        )
        fault_point("evaluated")

    def _train(self, phase: Phase, batch: Batch) -> StepResult:
        after = self._progress.after_batch(batch.cursor)
        count = functools.partial(self._count, phase, batch, after)
        return phase.stepper.train(batch, progress=after, on_result=count)

    def _count(self, phase: Phase, batch: Batch, after: Progress, result: StepResult) -> None:
        """Count a step before it is stored anywhere; a loss that is not finite prevents it."""
        if batch.is_blank:
            return
        journal = self._journals.get(phase.name)
        if journal is None:
            phase.metrics.count(result.outputs, batch, result.loss)
            return
        counters = phase.metrics.count_to_bytes(result.outputs, batch, result.loss)
        journal.append(after, counters, num_pending=phase.stepper.num_pending_pushes())

    def _after_step(self, batch: Batch) -> None:
        must_stop = self._group.any_rank(self._context.should_stop())
        self._rules.after_step(self._progress, event_time=batch.event_time)
        rule_group = self._group.rule_group
        if rule_group is not None and rule_group.size == self._group.size:
            self._is_ended = self._rules.should_end  # else all learn of it after the pass
        if must_stop:
            raise StopRequestedError

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """Save the run if it is interrupted, unless its steps are stored elsewhere."""
        try:
            yield
        except StopRequestedError:
            if self._context.journal is not None:
                raise KeyboardInterrupt from None
            raise StoppedError(self._rules.stop(self._progress)) from None

    def _is_over(self) -> bool:
        return self._is_ended or self._has_all_steps()

    def _has_all_steps(self) -> bool:
        num_steps = self._run.num_steps
        return num_steps is not None and self._progress.step >= num_steps

    def _info(self, phase: Phase, batch: Batch, spec: PassSpec) -> StepInfo:
        progress = self._progress
        in_pass = (progress.phase + batch.progress) / len(self._phases)
        num_epochs, num_steps = self._run.num_epochs, self._run.num_steps
        of_epochs = (progress.pass_index + in_pass) / num_epochs if num_epochs else 0.0
        of_steps = (progress.step + 1) / num_steps if num_steps else 0.0
        return StepInfo(
            kind="train",
            phase=phase.name,
            epoch=progress.pass_index,
            batch=progress.batch,
            step=progress.step,
            samples=batch.cursor.samples,
            fraction=max(of_epochs, of_steps),
            pass_name=spec.name if self._run.online else "",
        )

    def _dump_path(self, phase: Phase, spec: PassSpec) -> str | None:
        if self._run.dump_path is None:
            return None
        suffix = f"_{phase.name}" if len(self._phases) > 1 else ""
        return f"{self._run.dump_path}_epoch_{spec.name}{suffix}"


def with_prefetch(batches: Iterator[Batch], stepper: Stepper) -> Iterator[Batch]:
    """Yield the batches; a stepper that prefetches gets each of them one step ahead."""
    if not stepper.prefetches:
        yield from batches
        return
    current = next(batches, None)
    while current is not None:
        upcoming = next(batches, None)
        if upcoming is not None:
            stepper.prefetch(upcoming)
        yield current
        current = upcoming


def _journals(path: Path | None, phases: Sequence[Phase]) -> Mapping[str, MetricJournal]:
    if path is None:
        return {}
    return {
        phase.name: MetricJournal(
            journal_path(path, phase.name, num_phases=len(phases)), phase.metrics
        )
        for phase in phases
    }
