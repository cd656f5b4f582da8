"""What a run tells those who watch it."""

import dataclasses
from collections.abc import Mapping
from typing import Literal, Protocol

Kind = Literal["train", "infer"]
Tables = Mapping[str, Mapping[str, int]]  # what growing tables hold, and what came and went


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run stands. ``fraction`` is of the whole run, by bytes of data."""

    kind: Kind
    phase: str
    epoch: int
    batch: int
    step: int
    samples: int
    fraction: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The figures of the last ``print_interval`` batches."""

    place: Place
    seconds: float
    samples_per_s: float
    eta_s: float
    figures: Mapping[str, float]
    costs: Mapping[str, float]
    tables: Tables
    num_waiting: int = 0  # steps on their way to servers


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PassDone:
    """The figures of one pass over a data set; ``epoch`` may be the name of a checkpoint."""

    kind: Kind
    phase: str
    epoch: str
    seconds: float
    samples_per_s: float
    figures: Mapping[str, float]
    tables: Tables


class Observer(Protocol):
    """Watches a run; must not change it."""

    def step(self, place: Place) -> None:
        """Be told of every step; has to be quick."""
        ...

    def interval(self, interval: Interval) -> None:
        """Be told the figures of an interval."""
        ...

    def pass_done(self, done: PassDone) -> None:
        """Be told that a pass over the data is over."""
        ...

    def saved(self, what: str, path: str, *, epoch: int) -> None:
        """Be told that something was published."""
        ...


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def step(self, place: Place) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.step(place)

    def interval(self, interval: Interval) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.interval(interval)

    def pass_done(self, done: PassDone) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.pass_done(done)

    def saved(self, what: str, path: str, *, epoch: int) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.saved(what, path, epoch=epoch)
