"""What the rules of a run remember from one evaluation to the next."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from fleetrec.config.rules import Rule


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best value of a metric, and the evaluations since then."""

    value: float
    step: int
    num_since: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """The last evaluation, the best value by metric, and the event time of the last step.

    It is saved in every checkpoint, so that a resumed run ends when an unbroken one does.
    """

    evaluated_step: int | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    best: Mapping[str, Best] = dataclasses.field(default_factory=dict)
    event_time: int | None = None

    def evaluated(
        self, metrics: Mapping[str, float], *, step: int, tracked: Mapping[str, bool]
    ) -> Self:
        """Return the state after an evaluation; ``tracked`` metrics are minimized if True."""
        best = dict(self.best)
        for name, minimize in tracked.items():
            value, before = metrics[name], best.get(name)
            if _is_better(value, before, minimize=minimize):
                best[name] = Best(value=value, step=step)
            elif before is not None:
                best[name] = dataclasses.replace(before, num_since=before.num_since + 1)
        return dataclasses.replace(self, evaluated_step=step, metrics=dict(metrics), best=best)

    def is_best(self, metric: str | None) -> bool:
        """Return whether the last evaluation has the best value of a metric."""
        best = self.best.get(metric or "")
        return best is not None and best.step == self.evaluated_step

    def is_exhausted(self, rule: Rule) -> bool:
        """Return whether the metric of a rule has not improved for too long."""
        best = self.best.get(rule.metric or "")
        return best is not None and best.num_since >= rule.patience

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a state from ``to_dict``; metrics that are null were undefined."""
        fields = dict(data)
        metrics = fields.pop("metrics", {})
        best = {name: Best(**one) for name, one in fields.pop("best", {}).items()}
        values = {name: math.nan if one is None else one for name, one in metrics.items()}
        return cls(**fields, metrics=values, best=best)


class RuleStateFile:
    """Keeps the state for the process that replaces this one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, state: RuleState) -> None:
        """Replace the file, if there is to be one."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staging = self._path.with_name(f"{self._path.name}.new")
        staging.write_text(json.dumps(state.to_dict()), encoding="utf-8")
        staging.replace(self._path)

    def read(self) -> RuleState:
        """Return the state that was written last."""
        if self._path is None or not self._path.is_file():
            return RuleState()
        return RuleState.from_dict(json.loads(self._path.read_text(encoding="utf-8")))

    def clear(self) -> None:
        """Delete the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _is_better(value: float, before: Best | None, *, minimize: bool) -> bool:
    if not math.isfinite(value):
        return False
    if before is None:
        return True
    return value < before.value if minimize else value > before.value
