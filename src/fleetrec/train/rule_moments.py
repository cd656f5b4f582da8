"""When rules are due."""

from collections.abc import Mapping

from fleetrec.config.rules import RuleWhen
from fleetrec.core.progress import Progress
from fleetrec.train.pass_plan import PassSpec

Trigger = tuple[RuleWhen, float]
Metrics = Mapping[str, Mapping[str, float]]  # of a pass, by phase


def is_due_in_day(trigger: Trigger, spec: PassSpec) -> bool:
    """Return whether a rule about passes of days is due after the pass ``spec``."""
    when, every = trigger
    if when == "days":
        return spec.ends_day
    return not spec.ends_day and spec.number % every == 0


def flat(metrics: Metrics) -> dict[str, float]:
    """Return the metrics of the last phase."""
    return dict(list(metrics.values())[-1]) if metrics else {}


def is_pass_start(progress: Progress) -> bool:
    """Return whether a pass begins here."""
    return progress.cursor is None and progress.phase == 0


def is_due(trigger: Trigger, progress: Progress) -> bool:
    """Return whether a rule that counts is due at ``progress``."""
    when, every = trigger
    if when == "passes":
        return progress.pass_index > 0 and progress.pass_index % every == 0
    if when == "pass_steps":
        return progress.cursor is not None and (progress.batch - 1) % every == 0
    return progress.step > 0 and progress.step % every == 0
