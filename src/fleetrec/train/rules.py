"""Does what the rules of a run ask for: save, evaluate, export, end."""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fleetrec.config.rules import Rule, RuleWhen
from fleetrec.core import storage
from fleetrec.core.event_time import day_after
from fleetrec.core.progress import Progress
from fleetrec.export.done_files import END_OF_DAY, CheckpointDone
from fleetrec.export.serving import ServingRequest
from fleetrec.parallel.group import Group
from fleetrec.train.context import RunContext
from fleetrec.train.delta_chain import prune
from fleetrec.train.evaluate import PhaseEvaluation, write_result
from fleetrec.train.inference_export import InferenceExport
from fleetrec.train.pass_plan import PassPlan, PassSpec, last_pass, last_pass_index
from fleetrec.train.rule_moments import (
    Metrics,
    Trigger,
    flat,
    is_due,
    is_due_in_day,
    is_pass_start,
)
from fleetrec.train.rule_state import RuleState, RuleStateFile
from fleetrec.train.saver import Saver, SaveRequest
from fleetrec.train.stop_function import load_stop_function, must_stop

logger = logging.getLogger(__name__)

STEP_TRIGGERS: tuple[RuleWhen, ...] = ("steps", "pass_steps", "seconds", "event_minutes")


class Rules(Protocol):
    """Called by the loop at every moment at which a rule may be due."""

    should_end: bool

    def begin(self, progress: Progress) -> None:
        """Act before the first step of a new run."""
        ...

    def resume(self, progress: Progress) -> None:
        """Act on what was due at ``progress``, but had not been done when the run broke off."""
        ...

    def after_step(self, progress: Progress, *, event_time: int) -> None:
        """Act after a step."""
        ...

    def after_pass(self, progress: Progress, metrics: Metrics) -> None:
        """Act after a pass; ``progress`` is the beginning of the next."""
        ...

    def stop(self, progress: Progress) -> str:
        """Save an interrupted run; returns the checkpoint."""
        ...

    def end(self, progress: Progress) -> None:
        """Act after the last step, and wait until everything is published."""
        ...


class NoRules:
    """Does nothing: another process acts for this one."""

    should_end = False

    def begin(self, progress: Progress) -> None:
        """Do nothing."""

    def resume(self, progress: Progress) -> None:
        """Do nothing."""

    def after_step(self, progress: Progress, *, event_time: int) -> None:
        """Do nothing."""

    def after_pass(self, progress: Progress, metrics: Metrics) -> None:
        """Do nothing."""

    def stop(self, progress: Progress) -> str:
        """Return no checkpoint."""
        del progress
        return ""

    def end(self, progress: Progress) -> None:
        """Do nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleActions:
    """What rules act by; every process of the group has the same."""

    saver: Saver
    inference: InferenceExport
    evaluation: PhaseEvaluation | None


class GroupRules:
    """The rules of a run, followed by every process of ``group`` at the same steps."""

    def __init__(
        self,
        rules: Sequence[Rule],
        group: Group,
        actions: RuleActions,
        context: RunContext,
        *,
        plan: PassPlan,
        file: RuleStateFile,
    ) -> None:
        self.should_end = False
        self.state = RuleState()
        self._rules = tuple(rules)
        self._group = group
        self._actions = actions
        self._context = context
        self._plan = plan
        self._file = file
        self._tracked = {rule.metric: rule.minimize for rule in rules if rule.metric is not None}
        self._exported: tuple[str, Progress] | None = None
        self._improved = False  # by the evaluation of this moment
        self._evaluations: dict[int, dict[str, float]] = {}
        self._whole: set[str] = set()  # checkpoints of this moment that hold whole tables
        self._pass_metrics: Metrics = {}  # of the pass that has just ended
        self._last_s = {trigger: context.clock() for trigger in self._triggers("seconds")}

    def restore(self, state: RuleState, metrics: Metrics) -> None:
        """Remember what the checkpoint that was loaded has of rules, and of its last pass."""
        self.state = state
        self._pass_metrics = metrics

    def begin(self, progress: Progress) -> None:
        """Do what is due before the first step."""
        self._act(self._of("begin"), progress)

    def resume(self, progress: Progress) -> None:
        """Repeat the moment at which the run broke off; what was done then is skipped."""
        due = {t for t in self._triggers("steps", "pass_steps") if is_due(t, progress)}
        if is_pass_start(progress):
            due |= self._due_after_pass(progress)
        self._act([rule for rule in self._rules if (rule.when, rule.every) in due], progress)

    def after_step(self, progress: Progress, *, event_time: int) -> None:
        """Do what is due after a step; raises the error of a checkpoint that failed."""
        self._actions.saver.poll()
        self._pass_metrics = {}
        due = {
            trigger
            for trigger in self._triggers(*STEP_TRIGGERS)
            if self._is_step_due(trigger, progress, event_time)
        }
        self.state = dataclasses.replace(self.state, event_time=event_time)
        if due:
            self._act([rule for rule in self._rules if (rule.when, rule.every) in due], progress)

    def after_pass(self, progress: Progress, metrics: Metrics) -> None:
        """Do what is due after a pass.

        Servers continue while this process is replaced, so that what it was saving would be lost:
        at the end of a day they wait for it.
        """
        self._pass_metrics = metrics
        due = self._due_after_pass(progress)
        self._act([rule for rule in self._rules if (rule.when, rule.every) in due], progress)
        if self._context.journal is not None and any(when == "days" for when, _ in due):
            self._actions.saver.wait()

    def stop(self, progress: Progress) -> str:
        """Save, unless the last checkpoint is of this very progress; waits until it is there."""
        saver = self._actions.saver
        if saver.last_saved(progress) is None:
            self._act(self._of("stop"), progress)
        saver.wait()
        return saver.last_saved(progress) or "no checkpoint"

    def end(self, progress: Progress) -> None:
        """Do what is due at the end of the run."""
        self._act(self._of("end"), progress)
        self._actions.saver.wait()

    def _of(self, when: RuleWhen) -> list[Rule]:
        return [rule for rule in self._rules if rule.when == when]

    def _triggers(self, *when: RuleWhen) -> list[Trigger]:
        found = [(rule.when, rule.every) for rule in self._rules if rule.when in when]
        return list(dict.fromkeys(found))

    def _due_after_pass(self, progress: Progress) -> set[Trigger]:
        due = {t for t in self._triggers("passes") if is_due(t, progress)}
        spec = self._last_pass(progress) if progress.pass_index > 0 else None
        if spec is not None:
            day_triggers = self._triggers("day_passes", "days")
            due |= {trigger for trigger in day_triggers if is_due_in_day(trigger, spec)}
        return due

    def _last_pass(self, progress: Progress) -> PassSpec | None:
        """Return the pass of the last step, if passes have days."""
        spec = last_pass(self._plan, progress)
        return spec if spec is not None and spec.day else None

    def _is_step_due(self, trigger: Trigger, progress: Progress, event_time: int) -> bool:
        when, every = trigger
        if when in ("steps", "pass_steps"):
            return is_due(trigger, progress)
        # Clocks differ, and so may the samples: the chief decides for all.
        if when == "seconds":
            is_now = self._context.clock() - self._last_s[trigger] >= every
        else:
            before = self.state.event_time
            span = every * 60
            is_now = before is not None and before // span != event_time // span
        key = f"due/{when}/{every}/{progress.step}"
        sent = self._group.broadcast(
            b"1" if is_now else b"", key=key, pass_index=progress.pass_index
        )
        if sent and when == "seconds":
            self._last_s[trigger] = self._context.clock()
        return bool(sent)

    def _act(self, rules: Sequence[Rule], progress: Progress) -> None:
        self._improved = False
        served = {rule.path for rule in rules if rule.do == "serving"}
        self._whole = {rule.path for rule in rules if rule.do == "checkpoint"}
        for rule in rules:
            if rule.do in ("checkpoint", "delta") and rule.path in served:
                continue  # the serving model saves it
            do: Callable[[Rule, Progress], None] = {
                "checkpoint": self._save,
                "delta": self._save,
                "serving": self._serve,
                "inference": self._export,
                "evaluate": self._evaluate,
                "early_stop": self._end_early,
                "end_run": self._end_run,
            }[rule.do]
            do(rule, progress)

    def _save(self, rule: Rule, progress: Progress) -> None:
        is_best = rule.metric is not None
        if is_best and not (self._improved and self.state.is_best(rule.metric)):
            return
        url = storage.join(self._expand(rule.path, progress))
        if self._actions.saver.is_saved(url, progress):
            self._actions.saver.note(self._done(rule, progress, url))
            return
        measured: dict[str, Any] = dict(self._pass_metrics)
        if is_best:
            measured["eval"] = dict(self.state.metrics)
        self._actions.saver.save(
            SaveRequest(
                url=url,
                progress=progress,
                metrics=measured,
                rules=self.state.to_dict(),
                is_delta=rule.do == "delta",
                is_replaceable=is_best,
                prune_path=self._expand_folder(rule.path),
                keep=rule.keep,
                done=self._done(rule, progress, url),
            )
        )

    def _done(self, rule: Rule, progress: Progress, url: str) -> CheckpointDone | None:
        """Return the entry of a checkpoint in the done file; None if the rule has no such file."""
        spec = self._last_pass(progress)
        if not rule.done_folder or spec is None:
            return None
        return CheckpointDone(
            day=day_after(spec.day) if spec.ends_day else spec.day,
            key=spec.end_time,
            path=url,
            pass_number=END_OF_DAY if spec.ends_day else spec.number,
        )

    def _serve(self, rule: Rule, progress: Progress) -> None:
        serving, spec = rule.serving, self._last_pass(progress)
        assert serving is not None
        event_time = self.state.event_time or 0 if spec is None else spec.end_time
        request = ServingRequest(
            url=storage.join(self._expand(serving.path, progress)),
            base_url=storage.join(self._expand(serving.base_path or serving.path, progress)),
            kind=serving.kind,
            id=progress.step if serving.id_by == "step" else event_time,
            day="" if spec is None else spec.day,
            event_time=event_time,
            monitor=flat(self._pass_metrics),
        )
        url = storage.join(self._expand(rule.path, progress))
        oldest = None
        if rule.keep_days and spec is not None:
            oldest = day_after(spec.day, days=-rule.keep_days)
        self._actions.saver.serve(
            SaveRequest(
                url=url,
                done=self._done(rule, progress, url),
                oldest_day=oldest,
                progress=progress,
                metrics=dict(self._pass_metrics),
                rules=self.state.to_dict(),
                is_delta=rule.path not in self._whole,
                prune_path=self._expand_folder(rule.path),
                keep=rule.keep,
                serving=request,
            )
        )

    def _export(self, rule: Rule, progress: Progress) -> None:
        if rule.metric is not None and not (self._improved and self.state.is_best(rule.metric)):
            return
        url = storage.join(self._expand(rule.path, progress))
        if self._exported != (url, progress):
            self._actions.inference.write(url, progress)
            self._exported = (url, progress)
            if rule.keep and self._group.is_chief:
                prune(self._expand_folder(rule.path), keep=rule.keep)

    def _evaluate(self, rule: Rule, progress: Progress) -> None:
        evaluation = self._actions.evaluation
        if evaluation is None or self.state.evaluated_step == progress.step:
            return
        measured = evaluation.run(
            name=self._expand(rule.name, progress),
            key=f"evaluate/{progress.step}",
            pass_index=progress.pass_index,
        )
        self.state = self.state.evaluated(measured, step=progress.step, tracked=self._tracked)
        self._improved = True
        if self._group.is_chief:
            self._file.write(self.state)
            if rule.path:
                write_result(self._expand(rule.path, progress), measured, step=progress.step)

    def _end_run(self, rule: Rule, progress: Progress) -> None:
        """End at a time or by a file; the chief decides for all."""
        is_late = rule.deadline is not None and time.time() >= rule.deadline
        is_now = is_late or bool(rule.path and storage.exists(self._expand(rule.path, progress)))
        key = f"end_run/{rule.deadline}/{rule.path}/{progress.step}"
        flag = b"1" if is_now else b""
        if self._group.broadcast(flag, key=key, pass_index=progress.pass_index):
            reason = f"{rule.path} exists" if rule.path else "the deadline has passed"
            logger.info("stopped at step %d: %s", progress.step, reason)
            self.should_end = True

    def _end_by_function(self, rule: Rule, progress: Progress) -> None:
        if self.should_end or self.state.evaluated_step != progress.step:
            return
        self._evaluations[progress.step] = dict(self.state.metrics)
        function = load_stop_function(rule.function)
        parameters = rule.function_parameters
        if must_stop(function, self._evaluations, parameters, name=rule.function):
            self.should_end = True
            logger.info("stopped early at step %d by %s", progress.step, rule.function)

    def _end_early(self, rule: Rule, progress: Progress) -> None:
        if rule.function:
            self._end_by_function(rule, progress)
            return
        if not self.state.is_exhausted(rule) or self.should_end:
            return
        self.should_end = True
        best = self.state.best[rule.metric or ""]
        logger.info(
            "stopped early at step %d: %s has not improved in %d evaluations; best %.6g at step %d",
            progress.step,
            rule.metric,
            best.num_since,
            best.value,
            best.step,
        )

    def _expand(self, template: str, progress: Progress) -> str:
        """Fill in a template; ``{batch}`` is that of the last step."""
        is_within = progress.cursor is not None
        values = {
            "pass": last_pass_index(progress),
            "batch": progress.batch - 1 if is_within else "end",
            "step": progress.step,
        }
        spec = self._last_pass(progress) if "{" in template else None
        if spec is not None:
            values |= {
                "day": spec.day,
                "next_day": day_after(spec.day),
                "number": spec.number,
            }
        filled = self._expand_folder(template)
        for name, value in values.items():
            filled = filled.replace(f"{{{name}}}", str(value))
        return filled

    def _expand_folder(self, template: str) -> str:
        return template.replace("{folder}", str(self._context.folder.path))
