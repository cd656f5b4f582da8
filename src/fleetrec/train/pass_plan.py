"""Which passes over the data a run makes."""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from fleetrec.core.event_time import day_time, event_time_of
from fleetrec.core.progress import Progress
from fleetrec.data.files import DataFile, fingerprint

PhaseFiles = Mapping[str, tuple[DataFile, ...]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PassSpec:
    """One pass: the unit of data that is named, counted, saved after and resumed into.

    ``files`` and ``fingerprint``, which shows whether they have changed, are by phase; so are
    ``evaluation_files``, if a pass is evaluated on other files than it is trained on.
    ``event_time`` is when the samples happened, in seconds, where they do not say it themselves;
    before ``end_time`` all of them have happened.

    ``number`` counts the passes of ``day`` from 1. After the pass that ``ends_day``, rows are
    evicted by their age at ``eviction_time``: the beginning of that day. ``arrived_at`` is when the
    data was there, in seconds since 1970.
    """

    name: str
    index: int
    event_time: int
    files: PhaseFiles
    fingerprint: Mapping[str, str]
    evaluation_files: PhaseFiles = dataclasses.field(default_factory=dict)
    end_time: int = 0
    day: str = ""
    number: int = 0
    ends_day: bool = True
    arrived_at: float | None = None

    @property
    def eviction_time(self) -> int:
        """Return the event time from which the age of rows counts."""
        return day_time(self.day) if self.day else self.event_time

    @property
    def num_files(self) -> int:
        """Return the number of files of all phases."""
        return sum(len(files) for files in self.files.values())


class PassPlan(Protocol):
    """Decides what comes next, when it comes: the files of a pass may not be known before."""

    def next(self, after: Progress) -> PassSpec | None:
        """Return the pass that ``after`` is in or at the beginning of; None: the run is over.

        It may have to wait for data. Every process of a group calls it. Raises StopRequestedError
        if the run is to stop meanwhile.
        """
        ...

    def known(self, index: int) -> PassSpec | None:
        """Return a pass that has begun, also one of an earlier process; None: it has not."""
        ...

    def peek(self, index: int) -> PhaseFiles | None:
        """Return the files of a later pass, to read them ahead; None if they are not known yet."""
        ...


class Epochs:
    """Passes over the same files. Each counts as a day of event time."""

    def __init__(self, num_epochs: int | None, files: PhaseFiles) -> None:
        self._num_epochs = num_epochs
        self._files = files
        self._fingerprint = {name: fingerprint(some) for name, some in files.items()}

    def next(self, after: Progress) -> PassSpec | None:
        """Return the epoch; there is no end without ``num_epochs``."""
        return self.known(after.pass_index)

    def known(self, index: int) -> PassSpec | None:
        """Return an epoch by its index."""
        if self._num_epochs is not None and index >= self._num_epochs:
            return None
        return PassSpec(
            name=str(index),
            index=index,
            event_time=event_time_of(index),
            files=self._files,
            fingerprint=self._fingerprint,
        )

    def peek(self, index: int) -> PhaseFiles | None:  # noqa: ARG002
        """Return None: the files of the next epoch are those of this one."""
        return None


def last_pass(plan: PassPlan, progress: Progress) -> PassSpec | None:
    """Return the pass that ``progress`` is in, or has just finished."""
    return plan.known(last_pass_index(progress))


def last_pass_index(progress: Progress) -> int:
    """Return the index of the pass of the last step."""
    is_within = progress.cursor is not None or progress.phase > 0
    return progress.pass_index if is_within else max(0, progress.pass_index - 1)
