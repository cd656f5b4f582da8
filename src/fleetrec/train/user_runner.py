"""Passes that a class of the user asks for, one after the other."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetrec.config.online import OnlineOptions
from fleetrec.core.errors import DataError, FleetRecError, ModelError
from fleetrec.core.event_time import day_time
from fleetrec.core.progress import Progress
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.user_code import explain, import_file
from fleetrec.parallel.group import Group
from fleetrec.parallel.on_chief import on_chief
from fleetrec.train.context import StoppedError, StopRequestedError
from fleetrec.train.loop import Loop
from fleetrec.train.pass_log import FrozenPass, PassLog, fingerprints
from fleetrec.train.pass_plan import PassSpec, PhaseFiles
from fleetrec.train.phase import Phase

CLASS_NAME = "Runner"


class RequestedPasses:
    """The passes that were asked for so far; a plan that does not know what comes next."""

    def __init__(self, log: PassLog) -> None:
        self.log = log

    def next(self, after: Progress) -> PassSpec | None:
        """Return the pass that ``after`` is in, if it has begun."""
        return self.known(after.pass_index)

    def known(self, index: int) -> PassSpec | None:
        """Return a pass that has begun."""
        frozen = self.log.read_by_index(index)
        return None if frozen is None else frozen.spec

    def peek(self, index: int) -> PhaseFiles | None:  # noqa: ARG002
        """Return None: the files of the next pass are not known."""
        return None


class RunnerContext:
    """What a class ``Runner`` of the user works with; every process of a run has one.

    All processes must ask for the same passes in the same order. After a restart the program runs
    from its beginning, and the passes that were made before are skipped.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        loop: Loop,
        plan: RequestedPasses,
        group: Group,
        phases: Sequence[str],
    ) -> None:
        self.settings = settings
        self._loop = loop
        self._plan = plan
        self._group = group
        self._phases = phases
        self._num_asked = 0

    @property
    def num_passes_done(self) -> int:
        """The number of passes that have been made, also before a restart."""
        return self._loop.progress.pass_index

    def train(
        self, paths: str | Sequence[str], *, day: str, number: int, ends_day: bool = False
    ) -> dict[str, dict[str, float]]:
        """Evaluate and train on files, save what is due, and return the metrics by phase.

        Args:
            paths: Files, folders, patterns or URLs. They are listed once; a restarted run uses the
                same files.
            day: The day of the data, such as ``20261118``.
            number: The number of the pass within the day, from 1.
            ends_day: Whether this is the last pass of the day: rows are evicted, and the whole
                model is saved.

        Returns:
            Nothing for a pass that was made before.
        """
        index = self._num_asked
        self._num_asked += 1
        if index < self._loop.progress.pass_index:
            return {}
        listed = [paths] if isinstance(paths, str) else list(paths)
        content = on_chief(
            self._group,
            lambda: self._freeze(index, listed, day=day, number=number, ends_day=ends_day),
            key="pass",
            pass_index=index,
        )
        frozen = FrozenPass.from_bytes(content.encode(), where=f"pass {index}")
        if self._group.is_chief:
            self._plan.log.write_by_index(frozen)
        return self._loop.run_pass(frozen.spec)

    def _freeze(
        self, index: int, paths: Sequence[str], *, day: str, number: int, ends_day: bool
    ) -> str:
        before = self._plan.log.read_by_index(index)
        if before is not None:
            return before.to_bytes().decode()
        try:
            begin = day_time(day)
        except ValueError as error:
            raise DataError(f"train: expected a day such as 20261118, got {day!r}") from error
        files: tuple[DataFile, ...] = tuple(one for path in paths for one in list_files(path))
        by_phase = dict.fromkeys(self._phases, files)
        spec = PassSpec(
            name=f"{day}/{number}",
            index=index,
            event_time=begin,
            end_time=begin + number,
            files=by_phase,
            fingerprint=fingerprints(by_phase),
            day=day,
            number=number,
            ends_day=ends_day,
        )
        times = [at for file in files if (at := file.modified_at()) is not None]
        return FrozenPass(spec=spec, arrived_at=max(times, default=None)).to_bytes().decode()


def user_runner(
    online: OnlineOptions,
    loop: Loop,
    plan: RequestedPasses,
    group: Group,
    phases: Sequence[Phase],
) -> Callable[[], None]:
    """Return a call that runs the user's class ``Runner``; its errors name the user's line."""
    path = online.runner_path
    assert path is not None
    runner = _load(path)
    names = [phase.name for phase in phases]
    context = RunnerContext(online.settings, loop, plan, group, names)

    def run() -> None:
        try:
            runner.run(context)
        except (FleetRecError, StoppedError, StopRequestedError, OSError):
            raise
        except Exception as error:
            raise ModelError(explain(error, path)) from error

    return run


def _load(path: Path) -> Any:
    try:
        found = getattr(import_file(path.resolve()), CLASS_NAME, None)
        if not (isinstance(found, type) and callable(getattr(found, "run", None))):
            raise ModelError(
                f"{path}: expected a class {CLASS_NAME} with a method run(context), got {found!r}"
            )
        return found()
    except FleetRecError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{explain(error, path)} (while the runner was loaded)") from error
