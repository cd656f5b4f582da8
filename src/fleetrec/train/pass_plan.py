"""Which passes over the data a run makes."""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from fleetrec.core.event_time import event_time_of
from fleetrec.core.progress import Progress
from fleetrec.data.files import DataFile, fingerprint

PhaseFiles = Mapping[str, tuple[DataFile, ...]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PassSpec:
    """One pass: the unit of data that is named, counted, saved after and resumed into.

    ``files`` and ``fingerprint``, which shows whether they have changed, are by phase.
    ``event_time`` is when the samples happened, in seconds, where they do not say it themselves.
    """

    name: str
    index: int
    event_time: int
    files: PhaseFiles
    fingerprint: Mapping[str, str]


class PassPlan(Protocol):
    """Decides what comes next, when it comes: the files of a pass may not be known before."""

    def next(self, after: Progress) -> PassSpec | None:
        """Return the pass that ``after`` is in or at the beginning of; None: the run is over."""
        ...


class Epochs:
    """Passes over the same files. Each counts as a day of event time."""

    def __init__(self, num_epochs: int | None, files: PhaseFiles) -> None:
        self._num_epochs = num_epochs
        self._files = files
        self._fingerprint = {name: fingerprint(some) for name, some in files.items()}

    def next(self, after: Progress) -> PassSpec | None:
        """Return the epoch; there is no end without ``num_epochs``."""
        index = after.pass_index
        if self._num_epochs is not None and index >= self._num_epochs:
            return None
        return PassSpec(
            name=str(index),
            index=index,
            event_time=event_time_of(index),
            files=self._files,
            fingerprint=self._fingerprint,
        )


def last_pass(plan: PassPlan, progress: Progress) -> PassSpec | None:
    """Return the pass that ``progress`` is in, or has just finished."""
    return plan.next(dataclasses.replace(progress, pass_index=last_pass_index(progress)))


def last_pass_index(progress: Progress) -> int:
    """Return the index of the pass of the last step."""
    is_within = progress.cursor is not None or progress.phase > 0
    return progress.pass_index if is_within else max(0, progress.pass_index - 1)
