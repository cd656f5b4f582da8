"""The keys of an online runner that are about watching it: alarms, and metrics for Prometheus."""

import shlex
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from fleetrec.config.online import AlarmOptions, WatchOptions
from fleetrec.config.yaml_dialect.section import Int, Section


def _words(value: Any) -> Any:
    """Split a command as a shell does; a list is taken as it is."""
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error


class AlarmKeys(Section):
    """``alarms`` of an online runner."""

    auc_drop: float | None = Field(default=None, gt=0, lt=1)
    copc: tuple[float, float] | None = None
    no_data_minutes: float | None = Field(default=None, gt=0)
    max_delay_minutes: float | None = Field(default=None, gt=0)
    command: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.copc is not None and not 0 <= self.copc[0] < self.copc[1]:
            low, high = self.copc
            raise ValueError(f"copc: expected a range such as [0.8, 1.2], got [{low}, {high}]")
        limits = (self.auc_drop, self.copc, self.no_data_minutes, self.max_delay_minutes)
        if self.command and all(limit is None for limit in limits):
            raise ValueError(
                "command: given without an alarm; set auc_drop, copc, no_data_minutes or "
                "max_delay_minutes"
            )
        return self


class WatchKeys(Section):
    """The keys of a runner about watching it."""

    alarms: AlarmKeys | None = None
    metrics_port: Int | None = Field(default=None, ge=0, lt=1 << 16)
    metrics_host: str | None = Field(default=None, min_length=1)


def watch_problems(runner: WatchKeys, *, evaluates: bool, waits: bool) -> dict[str, str]:
    """Return what is wrong with these keys, by key.

    ``evaluates``: passes are evaluated before training. ``waits``: the run waits for its data.
    """
    problems = {}
    if runner.metrics_host is not None and runner.metrics_port is None:
        problems["metrics_host"] = "given without metrics_port"
    alarms = runner.alarms or AlarmKeys()
    if not evaluates and (alarms.auc_drop is not None or alarms.copc is not None):
        problems["alarms"] = "auc_drop and copc need evaluate_first: true"
    elif not waits and alarms.no_data_minutes is not None:
        problems["alarms"] = "no_data_minutes is not for a runner with runner_class_path"
    return problems


def watch_options(runner: WatchKeys) -> WatchOptions:
    """Translate the keys."""
    default = WatchOptions()
    alarms = runner.alarms
    return WatchOptions(
        alarms=default.alarms if alarms is None else AlarmOptions(**dict(alarms)),
        metrics_port=runner.metrics_port,
        metrics_host=runner.metrics_host or default.metrics_host,
    )
