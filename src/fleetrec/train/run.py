"""Training and evaluation as whole runs: what command line and Fleet build on."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fleetrec.checkpoint.folder import Folder, open_folder
from fleetrec.config.job import RunOptions
from fleetrec.config.online import StreamOptions
from fleetrec.config.rules import Rule
from fleetrec.config.serving import ServingOptions
from fleetrec.config.tables import DEFAULT
from fleetrec.core import storage
from fleetrec.core.batch import Batch
from fleetrec.core.errors import ConfigError, LostRankError
from fleetrec.core.progress import Progress
from fleetrec.export.increments import IncrementSender
from fleetrec.export.inference import InferenceModel
from fleetrec.export.serving import ServingPublisher
from fleetrec.parallel.group import Group
from fleetrec.parallel.stepper import StepResult
from fleetrec.train.checkpoints import checkpoints_below, matching_phase, read_phase
from fleetrec.train.context import RunContext, StoppedError, StopRequestedError
from fleetrec.train.delta_chain import chain_of
from fleetrec.train.dump import open_dump
from fleetrec.train.evaluate import PhaseEvaluation, evaluate, no_samples
from fleetrec.train.events import StepInfo
from fleetrec.train.follow import Follow
from fleetrec.train.inference_export import InferenceExport, plan_inference_of
from fleetrec.train.loop import Loop
from fleetrec.train.pass_log import PassLog
from fleetrec.train.pass_plan import Epochs, PassPlan
from fleetrec.train.pass_report import PassReport
from fleetrec.train.phase import Phase, build_phases
from fleetrec.train.rule_state import RuleState, RuleStateFile
from fleetrec.train.rules import GroupRules, NoRules, RuleActions
from fleetrec.train.saver import Saver
from fleetrec.train.start import Start, Starter
from fleetrec.train.stream_plan import Stream
from fleetrec.train.user_runner import RequestedPasses, user_runner
from fleetrec.train.waiting import Waiting

__all__ = ("Evaluation", "RunContext", "StoppedError", "Training")

logger = logging.getLogger(__name__)


class Training:
    """One training run, as one process of ``group`` sees it.

    Data is opened and models are built here, so that nothing fails later that can fail now.
    """

    def __init__(self, run: RunOptions, group: Group, context: RunContext) -> None:
        self._run = run
        self._group = group
        self._context = context
        self._phases = build_phases(run, group)
        self._plan = self._build_plan()
        self._saver: Saver | None = None
        self._state_file = RuleStateFile(_rules_path(context.journal))
        self._rules = self._build_rules()
        self._loop = Loop(self._phases, group, self._plan, self._rules, context, run=run)

    def run(self, *, resume: bool = False) -> None:
        """Train to the end; raises StoppedError if interrupted."""
        starter = Starter(self._run, self._phases, self._group, self._plan, self._context)
        start = starter.start(resume=resume)
        stored = self._group.load_progress()
        progress = Progress.from_bytes(stored) if stored else start.progress_of(self._group.rank)
        if stored:
            logger.info("continues after step %d of this process", progress.step)
        self._loop.begin(progress, is_restarted=bool(stored), by_worker=start.progress)
        self._restore_rules(start, progress, is_restarted=bool(stored))
        try:
            self._loop.run(
                is_resumed=bool(stored) or start.is_exact, make_passes=self._user_runner()
            )
        except LostRankError:
            if self._saver is not None:
                self._saver.check_failed()
            raise

    def _user_runner(self) -> Callable[[], None] | None:
        """Return what makes the passes, if a class of the user does."""
        online = self._run.online
        if online is None or online.runner_path is None:
            return None
        assert isinstance(self._plan, RequestedPasses)
        return user_runner(online, self._loop, self._plan, self._group, self._phases)

    def close(self, *, finished: bool) -> None:
        """Leave the group; ``finished``: this process needs neither servers nor journal again."""
        if self._saver is not None:
            self._saver.close()
        self._loop.close(finished=finished)
        if finished:
            self._state_file.clear()
        self._group.close(finished=finished)

    def _build_plan(self) -> PassPlan:
        online = self._run.online
        if online is None:
            files = {phase.name: phase.loader.files for phase in self._phases}
            return Epochs(self._run.num_epochs, files)
        context, log = self._context, PassLog(online.save_path)
        phases = [phase.name for phase in self._phases]
        if online.follow is None:
            return RequestedPasses(log)
        waiting = Waiting(
            clock=context.clock,
            sleep=self._pause,
            should_stop=context.should_stop,
            on_waiting=context.observer.waiting,
        )
        if isinstance(online.follow, StreamOptions):
            return Stream(online.follow, phases, log, self._group, waiting)
        return Follow(online.follow, phases, log, self._group, waiting)

    def _pause(self, seconds: float) -> None:
        """Sleep while data is waited for; a checkpoint that was published meanwhile is reported."""
        if self._saver is not None:
            self._saver.poll()
        time.sleep(seconds)

    def _restore_rules(self, start: Start, progress: Progress, *, is_restarted: bool) -> None:
        """Let rules remember what a resumed or restarted run has done."""
        if isinstance(self._rules, NoRules) or self._saver is None:
            return
        self._saver.set_first_progress(start.progress)
        if is_restarted:
            self._rules.state = self._state_file.read()
        elif start.loaded == "everything":
            self._saver.begin_from(start.url, progress, chain=chain_of(start.url))
            metrics = open_folder(start.url, kind="checkpoint").meta.get("metrics", {})
            self._rules.restore(RuleState.from_dict(start.rules), metrics)

    def _build_rules(self) -> GroupRules | NoRules:
        rule_group = self._group.rule_group
        _check_serving(self._run)
        inference = plan_inference_of(self._run, self._phases)  # wrong names are refused by all
        _check_storage(self._run)
        if rule_group is None:
            return NoRules()
        for planned in inference.values():  # before the first step, not after the last
            if rule_group.is_chief:
                planned.convert()
            else:
                planned.check_exportable()
        self._saver = Saver(
            self._run,
            self._phases,
            rule_group,
            self._plan,
            self._context,
            publisher=_publisher(self._run, inference) if rule_group.is_chief else None,
        )
        evaluation = None
        if self._run.evaluation is not None:
            evaluation = PhaseEvaluation(
                self._run.evaluation,
                self._phases[0],
                rule_group,
                self._context,
                seed=self._run.seed,
            )
            _check_metrics(self._run.rules, evaluation)
        export = InferenceExport(inference, self._phases, rule_group, self._context)
        return GroupRules(
            self._run.rules,
            rule_group,
            RuleActions(saver=self._saver, inference=export, evaluation=evaluation),
            self._context,
            plan=self._plan,
            file=self._state_file,
        )


def _publisher(run: RunOptions, models: Mapping[str, InferenceModel]) -> ServingPublisher | None:
    """Return what publishes the serving models of a run; None: it has none."""
    folders = {rule.serving.folder for rule in run.rules if rule.serving is not None}
    if not folders:
        return None
    ((phase, model),) = models.items()
    folder = folders.pop()
    topics = {rule.serving.kafka_url for rule in run.rules if rule.serving is not None}
    topic = next(filter(None, topics), None)
    tables = run.phases[0].tables.items()
    served = {name: table.serving or ServingOptions() for name, table in tables}
    return ServingPublisher(
        model,
        phase=phase,
        folder=folder,
        options=served.pop(DEFAULT, ServingOptions()),
        by_table=served,
        sender=None if topic is None else IncrementSender(topic, folder=folder),
    )


def _check_serving(run: RunOptions) -> None:
    """Refuse serving models of several phases, or with done files in several folders."""
    folders = {rule.serving.folder for rule in run.rules if rule.serving is not None}
    if len(folders) > 1:
        raise ConfigError([f"runner {run.name}: serving models need one folder of done files"])
    if folders and len(run.phases) > 1:
        raise ConfigError(
            [
                f"runner {run.name}: serving models are made of runs with one phase, this one has "
                f"{len(run.phases)}"
            ]
        )


def _check_storage(run: RunOptions) -> None:
    """Write to the URLs of a run before the first step, not after the last."""
    found = set()
    paths = [run.dump_path, *(rule.path for rule in run.rules)]
    paths += [rule.serving.folder for rule in run.rules if rule.serving is not None]
    for path in filter(None, paths):
        url = storage.parent_of(path)
        while "{" in url:  # its name is not known yet
            url = storage.parent_of(url)
        found.add(url)
    for url in sorted(found):
        storage.check_writable(url)


class Evaluation:
    """One inference run: the metrics of one or all checkpoints on the data of every phase."""

    def __init__(self, run: RunOptions, group: Group, context: RunContext) -> None:
        if run.warm_start.url is None:
            raise ConfigError([f"runner {run.name}: init_model_path is required for inference"])
        self._checkpoints = checkpoints_below(run.warm_start.url)
        self._run = run
        self._group = group
        self._context = context
        self._phases = build_phases(run, group)

    def run(self) -> None:
        """Evaluate every phase on every checkpoint; raises KeyboardInterrupt if interrupted."""
        run_ids = set()
        for index, url in enumerate(self._checkpoints):
            checkpoint = open_folder(url, kind="checkpoint")
            run_ids.add(checkpoint.meta.get("run_id"))
            if index < self._group.num_passes_done:
                continue  # all processes had evaluated it before this one was restarted
            logger.info("load persistables from %s", url)
            for phase in self._phases:
                self._load(phase, checkpoint, index)
                self._evaluate(phase, index)
        if len(run_ids) > 1:
            logger.warning(
                "%s holds checkpoints of %d different training runs",
                self._run.warm_start.url,
                len(run_ids),
            )

    def close(self, *, finished: bool) -> None:
        """Leave the group; ``finished``: this process needs the servers no more."""
        self._group.close(finished=finished)

    def _load(self, phase: Phase, checkpoint: Folder, index: int) -> None:
        """Load the weights: first where they are held for all, then what each process holds."""
        saved = read_phase(checkpoint, matching_phase(checkpoint, phase))
        is_in_rule_group = self._group.rule_group is not None
        if is_in_rule_group:
            phase.state.load(saved, exact=False)
        self._group.all_gather(b"", key=f"infer/{phase.name}/loaded", pass_index=index)
        if not is_in_rule_group:
            phase.state.load(saved, exact=False)

    def _evaluate(self, phase: Phase, index: int) -> None:
        name = storage.name_of(self._checkpoints[index])
        loader = phase.loader
        report = PassReport("infer", phase, loader, self._run, self._context)
        num_batches = 0
        with (
            loader.epoch(0) as batches,
            open_dump(self._dump_path(name), phase.model) as dump,
        ):

            def on_batch(batch: Batch, result: StepResult) -> None:
                nonlocal num_batches
                if not batch.is_blank:
                    dump.write(result.outputs, batch)
                report.step(self._info(phase, batch, index, num_batches), batch, lr=None)
                num_batches += 1

            try:
                evaluated = evaluate(
                    phase.stepper,
                    self._group,
                    self._group.align_steps(report.timed(batches), loader.inputs),
                    phase.metrics,
                    should_stop=self._context.should_stop,
                    key=f"infer/{phase.name}/metrics",
                    pass_index=index,
                    on_batch=on_batch,
                )
            except StopRequestedError:
                raise KeyboardInterrupt from None
        if evaluated.is_empty:
            raise no_samples(loader)
        report.warn_of_slots()
        report.done(name, evaluated.metrics)
        phase.stepper.end_pass(index, now=0, ends_day=False)

    def _info(self, phase: Phase, batch: Batch, index: int, num_batches: int) -> StepInfo:
        phase_index = [one.name for one in self._phases].index(phase.name)
        done = index + (phase_index + batch.progress) / len(self._phases)
        return StepInfo(
            kind="infer",
            phase=phase.name,
            epoch=index,
            batch=num_batches,
            step=num_batches,
            samples=batch.cursor.samples,
            fraction=done / len(self._checkpoints),
        )

    def _dump_path(self, name: str) -> str | None:
        path = self._run.dump_path
        if path is None or len(self._checkpoints) == 1:
            return path
        return f"{path}_{name}"


def _rules_path(journal: Path | None) -> Path | None:
    return None if journal is None else journal.with_name(f"{journal.name}.rules")


def _check_metrics(rules: tuple[Rule, ...], evaluation: PhaseEvaluation) -> None:
    """Refuse rules about metrics that the evaluation does not have."""
    known = evaluation.metric_names()
    unknown = sorted({r.metric for r in rules if r.metric is not None and r.metric not in known})
    if unknown:
        raise ConfigError(
            [
                f"metric {name}: the model has no such metric; known: {', '.join(known)}"
                for name in unknown
            ]
        )
