"""Passes over folders of data that arrive while a run trains: ``<folder>/<YYYYMMDD>/<HHMM>``."""

import logging
from collections.abc import Iterator, Sequence

from fleetrec.config.online import FollowOptions
from fleetrec.core.errors import DataError, FleetRecError
from fleetrec.core.event_time import day_after, day_time, days_between
from fleetrec.core.fault_points import fault_point
from fleetrec.core.progress import Progress
from fleetrec.data.files import DataFile
from fleetrec.parallel.group import Group
from fleetrec.train.data_folders import Arrival, DataFolders, Split
from fleetrec.train.pass_log import FrozenPass, LateFile, PassLog, fingerprints
from fleetrec.train.pass_plan import PassSpec, PhaseFiles
from fleetrec.train.waiting import Waiting, WaitReport

logger = logging.getLogger(__name__)


class Follow:
    """Passes over the folders of days, in order, each as soon as its data is complete.

    The files of a pass are frozen before it begins. The chief finds them and stores them in
    ``log``; a run that was killed makes the same pass again.
    """

    def __init__(
        self,
        options: FollowOptions,
        phases: Sequence[str],
        log: PassLog,
        group: Group,
        waiting: Waiting | None = None,
    ) -> None:
        self._options = options
        self._phases = tuple(phases)
        self._log = log
        self._group = group
        self._waiting = waiting or Waiting()
        self._data = DataFolders(options)
        self._frozen: dict[int, FrozenPass] = {}

    def next(self, after: Progress) -> PassSpec | None:
        """Return the next pass; waits until its data is there."""
        index = after.pass_index
        if self._is_after_end(index):
            return None
        if index in self._frozen:
            return self._frozen[index].spec
        poll = _Wait(self, after, self._waiting).poll
        content = self._waiting.wait(
            self._group, poll, pass_index=index, poll_s=self._options.poll_s
        )
        frozen = FrozenPass.from_bytes(content.encode(), where=f"pass {index}")
        if self._group.is_chief:
            self._log.write(frozen)
            fault_point("pass_frozen")
            _report(frozen)
        self._remember(frozen)
        return frozen.spec

    def known(self, index: int) -> PassSpec | None:
        """Return a pass that has begun."""
        frozen = self.frozen(index)
        return None if frozen is None else frozen.spec

    def frozen(self, index: int) -> FrozenPass | None:
        """Return a pass that has begun, as it is stored."""
        if index < 0 or self._is_after_end(index):
            return None
        if index not in self._frozen:
            day, number = self._day_of(index), self._number_of(index)
            found = self._log.read(day=day, number=number)
            if found is None:
                return None
            self._frozen[index] = found
        return self._frozen[index]

    def peek(self, index: int) -> PhaseFiles | None:
        """Return the files of a pass if they are complete now, without waiting or freezing."""
        if self._is_after_end(index):
            return None
        arrival = self._data.look(self._splits(index))
        return self._by_phase(arrival.files) if arrival.is_complete else None

    def freeze(self, index: int, arrival: Arrival) -> FrozenPass:
        """Return a pass of files that have arrived, and of late files if these are trained."""
        late = tuple(self._late_files(index))
        trained = [one.file for one in late if one.is_trained]
        files = self._by_phase((*trained, *arrival.files))
        evaluation = self._by_phase(arrival.evaluation_files)
        first = self._splits(index)[0]
        return FrozenPass(
            spec=PassSpec(
                name=first.name,
                index=index,
                event_time=first.event_time,
                end_time=first.event_time + self._options.pass_minutes * 60,
                files=files,
                fingerprint=fingerprints(files),
                evaluation_files=evaluation if self._options.evaluation_folders else {},
                day=first.day,
                number=self._number_of(index),
                ends_day=self._number_of(index) == self._options.passes_per_day,
            ),
            late=late,
            arrived_at=arrival.arrived_at,
        )

    def arrival(self, index: int) -> Arrival:
        """Return what is there now of the data of a pass."""
        return self._data.look(self._splits(index))

    @property
    def options(self) -> FollowOptions:
        """Return the options of the plan."""
        return self._options

    def pass_name(self, index: int) -> str:
        """Return the name of a pass, such as 20261118/0005."""
        return self._splits(index)[0].name

    def _remember(self, frozen: FrozenPass) -> None:
        index = frozen.spec.index
        self._frozen[index] = frozen
        oldest = index - self._num_late_passes - 1
        self._frozen = {i: one for i, one in self._frozen.items() if i >= oldest}

    def _late_files(self, index: int) -> Iterator[LateFile]:
        """Yield files that have appeared in folders of earlier passes since those began."""
        earlier = [self.frozen(i) for i in range(max(0, index - self._num_late_passes), index)]
        handled = {
            file.path
            for frozen in filter(None, earlier)
            for file in (
                *(one for some in frozen.spec.files.values() for one in some),
                *(late.file for late in frozen.late),
            )
        }
        for frozen in filter(None, earlier):
            for file in self._data.look(self._splits(frozen.spec.index)).files:
                if file.path not in handled:
                    handled.add(file.path)
                    is_trained = self._options.late_files == "train"
                    yield LateFile(file=file, of=frozen.spec.name, is_trained=is_trained)

    @property
    def _num_late_passes(self) -> int:
        return -(-self._options.late_minutes // self._options.pass_minutes)

    def _by_phase(self, files: Sequence[DataFile]) -> PhaseFiles:
        return {phase: tuple(files) for phase in self._phases}

    def _splits(self, index: int) -> list[Split]:
        first = (self._number_of(index) - 1) * self._options.splits_per_pass
        day = self._day_of(index)
        return [
            Split(
                day=day,
                minute=(first + offset) * self._options.split_minutes,
                event_time=day_time(day) + (first + offset) * self._options.split_minutes * 60,
            )
            for offset in range(self._options.splits_per_pass)
        ]

    def _day_of(self, index: int) -> str:
        return day_after(self._options.start_day, days=index // self._options.passes_per_day)

    def _number_of(self, index: int) -> int:
        return index % self._options.passes_per_day + 1

    def _is_after_end(self, index: int) -> bool:
        end = self._options.end_day
        if end is None:
            return False
        num_days = days_between(self._options.start_day, end) + 1
        return index >= num_days * self._options.passes_per_day


class _Wait:
    """Waits for the data of one pass, on the chief."""

    def __init__(self, plan: Follow, after: Progress, waiting: Waiting) -> None:
        self._plan = plan
        self._after = after
        self._clock = waiting.clock
        self._report = WaitReport(waiting, plan.pass_name(after.pass_index))
        self._last_look: float | None = None
        self._is_checked = False

    def poll(self) -> str | None:
        """Return the frozen pass as JSON; None: its data is not complete."""
        index, now = self._after.pass_index, self._clock()
        if not self._is_checked:
            self._is_checked = True
            before = self._begun_before(index)
            if before is not None:
                return before.to_bytes().decode()
        if self._last_look is not None and now - self._last_look < self._plan.options.poll_s:
            return None
        self._last_look = now
        try:
            arrival = self._plan.arrival(index)
        except FleetRecError as error:  # storage that does not answer may do so later
            arrival = Arrival(files=(), missing=str(error))
        if arrival.is_complete or self._is_given_up(index, arrival, self._report.waited_s):
            return self._plan.freeze(index, arrival).to_bytes().decode()
        self._report.report(arrival.missing)
        return None

    def _begun_before(self, index: int) -> FrozenPass | None:
        """Return the pass as an earlier process has frozen it, if the files are still the same."""
        frozen = self._plan.frozen(index)
        if frozen is None:
            return None
        changed = [
            problem
            for files in frozen.spec.files.values()
            for file in files
            if (problem := file_problem(file)) is not None
        ]
        if not changed:
            return frozen
        if self._after.cursor is not None:
            raise DataError(
                f"pass {frozen.spec.name} was interrupted, and a file of it has changed since: "
                f"{changed[0]}; restore the file, or delete the checkpoint within the pass"
            )
        logger.warning(
            "pass %s starts again with the files that are there now: %s",
            frozen.spec.name,
            changed[0],
        )
        return None

    def _is_given_up(self, index: int, arrival: Arrival, waited_s: float) -> bool:
        options = self._plan.options
        if options.timeout_s == 0 or waited_s < options.timeout_s:
            return False
        what = f"pass {self._plan.pass_name(index)}: {arrival.missing} after {waited_s:.0f} s"
        if options.on_timeout == "fail":
            raise DataError(
                f"{what} (data_timeout_second); start the run again when the data is there, or "
                "set on_data_timeout: skip"
            )
        logger.warning("%s; trained with what is there: %d files", what, len(arrival.files))
        return True


def file_problem(file: DataFile) -> str | None:
    """Return how a file differs from when it was listed; None if it does not."""
    size = file.current_bytes()
    if size is None:
        return f"{file.path} is gone"
    if size != file.num_bytes:
        return f"{file.path} had {file.num_bytes} bytes, now it has {size}"
    return None


def _report(frozen: FrozenPass) -> None:
    spec = frozen.spec
    for late in frozen.late:
        what = "trained with" if late.is_trained else "skipped by"
        logger.warning(
            "late file of pass %s: %s, %s pass %s (late_files)",
            late.of,
            late.file.path,
            what,
            spec.name,
        )
    if spec.num_files == 0:
        logger.warning("pass %s has no file", spec.name)
