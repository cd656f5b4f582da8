"""What a run reports to its observers."""

import dataclasses
from collections.abc import Mapping
from typing import Literal, Protocol

PassKind = Literal["train", "infer"]
Tables = Mapping[str, Mapping[str, int]]  # rows, created, evicted, ... of every growing table


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """Where a step is in the run. ``fraction`` is that of the whole run, by bytes of data.

    ``pass_name`` is that of a pass of an online run.
    """

    kind: PassKind
    phase: str
    epoch: int
    batch: int
    step: int
    samples: int
    fraction: float
    pass_name: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The metrics of the last ``print_interval`` batches."""

    info: StepInfo
    seconds: float
    samples_per_s: float
    eta_s: float
    metrics: Mapping[str, float]
    costs: Mapping[str, float]
    tables: Tables
    lr: float | None = None
    num_pending_pushes: int = 0  # steps that servers have not stored yet


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PassDone:
    """The metrics of one pass over a data set; ``epoch`` may be the name of a checkpoint.

    Only passes of online runs have the other fields: ``event_time`` of the data in seconds,
    ``index`` of the pass, when its data had ``arrived_at`` (seconds since 1970), and the time from
    then to the end of the pass, ``delay_s``.
    """

    kind: PassKind
    phase: str
    epoch: str
    seconds: float
    samples_per_s: float
    metrics: Mapping[str, float]
    tables: Tables
    event_time: int | None = None
    index: int | None = None
    arrived_at: float | None = None
    delay_s: float | None = None


class Observer(Protocol):
    """Receives the events of a run; must not change it."""

    def step(self, info: StepInfo) -> None:
        """Handle the end of a step; has to be quick."""
        ...

    def interval(self, interval: Interval) -> None:
        """Handle the end of an interval."""
        ...

    def pass_done(self, done: PassDone) -> None:
        """Handle the end of a pass over the data."""
        ...

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Handle that a checkpoint or an inference model was published."""
        ...

    def waiting(self, what: str, seconds: float) -> None:
        """Handle that a run has waited for data of the pass ``what`` for some seconds."""
        ...


class QuietObserver:
    """Ignores every event; observers of some events derive from it."""

    def step(self, info: StepInfo) -> None:
        """Do nothing."""

    def interval(self, interval: Interval) -> None:
        """Do nothing."""

    def pass_done(self, done: PassDone) -> None:
        """Do nothing."""

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Do nothing."""

    def waiting(self, what: str, seconds: float) -> None:
        """Do nothing."""


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def step(self, info: StepInfo) -> None:
        """Call ``step`` of every observer."""
        for observer in self._observers:
            observer.step(info)

    def interval(self, interval: Interval) -> None:
        """Call ``interval`` of every observer."""
        for observer in self._observers:
            observer.interval(interval)

    def pass_done(self, done: PassDone) -> None:
        """Call ``pass_done`` of every observer."""
        for observer in self._observers:
            observer.pass_done(done)

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Call ``saved`` of every observer."""
        for observer in self._observers:
            observer.saved(what, url, epoch=epoch)

    def waiting(self, what: str, seconds: float) -> None:
        """Call ``waiting`` of every observer."""
        for observer in self._observers:
            observer.waiting(what, seconds)
