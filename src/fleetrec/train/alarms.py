"""Alarms of an online run: what is wrong with its data or its model, and a command to report it."""

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleetrec.config.online import AlarmOptions
from fleetrec.core.event_time import SECONDS_PER_DAY
from fleetrec.train.events import PassDone, QuietObserver
from fleetrec.train.online_metrics import metrics_named, num_samples

logger = logging.getLogger(__name__)

MIN_PASSES = 3  # whose mean AUC a drop is measured from
SECONDS_PER_MINUTE = 60

AUC_DROP, COPC, NO_DATA, MAX_DELAY = "auc_drop", "copc", "no_data", "max_delay"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alarm that begins at ``time`` (seconds since 1970), or ``is_over``.

    ``pass_name`` is that of the pass which has caused it.
    """

    name: str
    message: str
    pass_name: str
    time: float
    is_over: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Return the alarm for JSON."""
        return {
            "name": self.name,
            "message": self.message,
            "pass": self.pass_name,
            "time": self.time,
            "is_over": self.is_over,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Alarm":
        """Rebuild an alarm from ``to_plain``, which may have more keys now."""
        return cls(
            name=plain["name"],
            message=plain["message"],
            pass_name=plain["pass"],
            time=plain["time"],
            is_over=plain["is_over"],
        )


def log_alarm(alarm: Alarm) -> None:
    """Write the line of an alarm."""
    if alarm.is_over:
        logger.warning("ALARM %s is over: pass %s", alarm.name, alarm.pass_name)
    else:
        logger.warning("ALARM %s: %s", alarm.name, alarm.message)


class AlarmObserver(QuietObserver):
    """Watches the passes of a run; calls ``on_change`` when an alarm begins or is over."""

    def __init__(
        self,
        options: AlarmOptions,
        *,
        now: Callable[[], float],
        on_change: Callable[[Alarm], None],
    ) -> None:
        self._options = options
        self._now = now
        self._on_change = on_change
        self._problems: dict[str, dict[str, str]] = {name: {} for name in _names(options)}
        self._totals = dict.fromkeys(self._problems, 0)
        # Event time and AUC by pass, for every phase and task.
        self._evaluated: dict[tuple[str, str], dict[int, tuple[int, float]]] = {}
        self._is_warned: set[str] = set()

    def restore(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Continue after the records of metrics.jsonl that an earlier process has written.

        Alarms that were active stay so: they do not begin again.
        """
        for record in records:
            if record["event"] == "pass" and record["kind"] == "infer":
                metrics = {k: v for k, v in record["metrics"].items() if v is not None}
                at, index = record.get("event_time"), record.get("index")
                if at is not None and index is not None:
                    self._add_auc(record["phase"], index, at, metrics)
            elif record["event"] == "alarm" and record["name"] in self._problems:
                # Under the phase "": the next pass of any phase decides whether it is over.
                problems = {} if record["is_over"] else {"": record["message"]}
                self._problems[record["name"]] = problems

    def active(self) -> dict[str, bool]:
        """Return whether each alarm of the run is active."""
        return {name: bool(problems) for name, problems in self._problems.items()}

    def totals(self) -> dict[str, int]:
        """Return how many times each alarm has begun in this process."""
        return dict(self._totals)

    def pass_done(self, done: PassDone) -> None:
        """Check the metrics of an evaluation, and the delay of a trained pass."""
        if done.event_time is None or done.index is None:
            return
        if num_samples(done.metrics):
            self._change(NO_DATA, "", done.epoch, None)
        if done.kind == "infer":
            self._check_copc(done)
            self._check_auc(done)
            self._add_auc(done.phase, done.index, done.event_time, done.metrics)
        else:
            self._check_delay(done)

    def waiting(self, what: str, seconds: float) -> None:
        """Check for how long the run has waited."""
        limit = self._options.no_data_minutes
        if limit is not None and seconds >= limit * SECONDS_PER_MINUTE:
            problem = f"no data of pass {what} for {seconds / SECONDS_PER_MINUTE:.3g} minutes"
            self._change(NO_DATA, "", what, problem)

    def _check_copc(self, done: PassDone) -> None:
        found = self._found(COPC, "COPC", done)
        defined = {name: value for name, value in found.items() if math.isfinite(value)}
        if self._options.copc is None or not defined:
            return
        low, high = self._options.copc
        wrong = [
            f"{name} is {value:.4g}" for name, value in defined.items() if not low <= value <= high
        ]
        problem = f"{', '.join(wrong)} in pass {done.epoch}; expected {low:g} to {high:g}"
        self._change(COPC, done.phase, done.epoch, problem if wrong else None)

    def _check_auc(self, done: PassDone) -> None:
        drop = self._options.auc_drop
        means = {
            name: (value, mean)
            for name, value in self._found(AUC_DROP, "AUC", done).items()
            if math.isfinite(value) and (mean := self._mean_before(done, name)) is not None
        }
        if drop is None or not means:
            return
        wrong = [
            f"{name} is {value:.4g}, {mean - value:.4g} below the mean of the last 24 hours"
            for name, (value, mean) in means.items()
            if value < mean - drop
        ]
        problem = f"{', '.join(wrong)} in pass {done.epoch}; allowed is {drop:g}"
        self._change(AUC_DROP, done.phase, done.epoch, problem if wrong else None)

    def _check_delay(self, done: PassDone) -> None:
        limit, delay_s = self._options.max_delay_minutes, done.delay_s
        if limit is None or delay_s is None:
            return
        problem = (
            f"pass {done.epoch} ended {delay_s / SECONDS_PER_MINUTE:.3g} minutes after its data "
            f"had arrived; allowed are {limit:g}"
        )
        is_late = delay_s > limit * SECONDS_PER_MINUTE
        self._change(MAX_DELAY, done.phase, done.epoch, problem if is_late else None)

    def _mean_before(self, done: PassDone, metric: str) -> float | None:
        """Return the mean AUC of the last 24 hours before a pass; None if that has few passes."""
        assert done.event_time is not None
        assert done.index is not None
        known = self._evaluated.get((done.phase, metric), {})
        first = done.event_time - SECONDS_PER_DAY
        before = [one for index, one in known.items() if index < done.index]
        window = [auc for at, auc in before if at >= first]
        return sum(window) / len(window) if len(window) >= MIN_PASSES else None

    def _add_auc(self, phase: str, index: int, at: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics_named(metrics, ["AUC"]).items():
            if math.isfinite(value):
                known = self._evaluated.get((phase, name), {})
                first = at - SECONDS_PER_DAY
                kept = {i: one for i, one in known.items() if one[0] >= first}
                self._evaluated[phase, name] = {**kept, index: (at, value)}

    def _found(self, alarm: str, metric: str, done: PassDone) -> dict[str, float]:
        """Return a metric of all tasks; warns once if an alarm is about one that there is not."""
        found = metrics_named(done.metrics, [metric])
        if alarm in self._problems and not found and alarm not in self._is_warned:
            self._is_warned.add(alarm)
            logger.warning(
                "alarm %s never begins: phase %s has no metric %s", alarm, done.phase, metric
            )
        return found

    def _change(self, name: str, phase: str, pass_name: str, problem: str | None) -> None:
        """Note the problem of a phase; an alarm is active as long as any phase has one."""
        if name not in self._problems:
            return
        before = self._problems[name]
        others = {other: text for other, text in before.items() if other not in (phase, "")}
        after = others if problem is None else {**others, phase: problem}
        self._problems[name] = after
        if bool(before) == bool(after):
            return
        if problem is not None:
            self._totals[name] += 1
        self._on_change(
            Alarm(
                name=name,
                message=problem or "",
                pass_name=pass_name,
                time=self._now(),
                is_over=problem is None,
            )
        )


def _names(options: AlarmOptions) -> list[str]:
    limits = {
        AUC_DROP: options.auc_drop,
        COPC: options.copc,
        NO_DATA: options.no_data_minutes,
        MAX_DELAY: options.max_delay_minutes,
    }
    return [name for name, limit in limits.items() if limit is not None]
