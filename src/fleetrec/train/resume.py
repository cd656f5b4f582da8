"""Find the checkpoint from which an interrupted run resumes, and load it."""

import dataclasses
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fleetrec.checkpoint.folder import Folder, open_folder
from fleetrec.config.job import RunOptions
from fleetrec.core.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    FleetRecError,
    MismatchError,
)
from fleetrec.core.progress import Progress
from fleetrec.parallel.group import Group
from fleetrec.train.checkpoints import (
    day_checkpoints,
    day_folders,
    progress_in,
    published_below,
    read_phase,
    step_checkpoints,
    url_of,
    worker_progress_in,
)
from fleetrec.train.context import RunContext
from fleetrec.train.pass_plan import PassPlan, last_pass
from fleetrec.train.phase import Phase
from fleetrec.train.resume_signature import resume_signature, signature_differences
from fleetrec.train.saver import METRICS

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """A checkpoint and the progress at which it was saved.

    Within a pass of several workers each has a progress of its own.
    """

    folder: Folder
    progress: Progress
    worker_progress: tuple[Progress, ...] = ()

    def matches_worker_count(self, num_workers: int) -> bool:
        """Return whether that many workers can resume from here."""
        return not self.worker_progress or len(self.worker_progress) == num_workers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resumed:
    """A checkpoint that was loaded; ``is_exact``: the run continues as if it had not stopped."""

    url: str
    progress: tuple[Progress, ...]  # of every worker, or one for all
    is_exact: bool
    rules: Mapping[str, Any]


class Resumer:
    """Looks for checkpoints and loads the newest sound one.

    Every process of ``rule_group`` makes the same calls. The chief lists the checkpoints; one that
    a process cannot load is passed over by all.
    """

    def __init__(
        self,
        run: RunOptions,
        phases: Sequence[Phase],
        group: Group,
        rule_group: Group,
        plan: PassPlan,
        context: RunContext,
    ) -> None:
        self._run = run
        self._phases = phases
        self._group = group
        self._rule_group = rule_group
        self._plan = plan
        self._context = context
        self._num_gathers = 0
        self._num_urls = 0

    def resume(self) -> Resumed | None:
        """Load the newest sound checkpoint of the run; None if there is none."""
        candidates = self._candidates() if self._rule_group.is_chief else iter(())
        while (url := self._next_url(candidates)) is not None:
            resumed = self._try(url)
            if resumed is not None:
                return resumed
        folders = ", ".join(self._folders())
        logger.warning("no checkpoint to resume from in %s: this is a new run", folders)
        return None

    def _next_url(self, candidates: Iterator[str]) -> str | None:
        """Return the next checkpoint that the chief has found; None: there is no other."""
        found = json.dumps(next(candidates, None)).encode()
        self._num_urls += 1
        key = f"resume/url/{self._num_urls}"
        url: str | None = json.loads(self._rule_group.broadcast(found, key=key, pass_index=None))
        return url

    def _candidates(self) -> Iterator[str]:
        return (url_of(point.folder) for point in self._points())

    def _folders(self) -> list[str]:
        folder = str(self._context.folder.path)
        named = [one.replace("{folder}", folder) for one in self._run.resume.folders]
        return list(dict.fromkeys(named))

    def _points(self) -> Iterator[ResumePoint]:
        """Yield the checkpoints of the run, newest first."""
        options, found = self._run.resume, []
        if options.layout == "days":
            yield from points_by_day(self._folders())
            return
        run_id = self._context.folder.run_id()
        if options.prefix is None and run_id is None:
            return
        for folder in self._folders():
            urls = (
                published_below(folder)
                if options.prefix is None
                else step_checkpoints(folder, prefix=options.prefix)
            )
            for url in urls:
                try:
                    point = open_point(url)
                except CheckpointError as error:
                    logger.warning("passed over: %s", error)
                    continue
                if options.prefix is not None or point.folder.meta.get("run_id") == run_id:
                    found.append(point)
        found.sort(key=lambda p: (p.progress.step, p.progress.pass_index), reverse=True)
        yield from found

    def _try(self, url: str) -> Resumed | None:
        """Load one checkpoint; None if some process cannot."""
        point = self._together(url, lambda: open_point(url))
        if point is None:
            return None
        changes = self._changes(point)
        if changes is not None and self._run.resume.if_changed == "refuse":
            if isinstance(changes, CheckpointError):  # an older one may fit
                logger.warning("passed over: %s: %s", url, changes)
                return None
            raise changes
        loaded = self._together(url, lambda: self._load(point, is_exact=changes is None))
        if loaded is None:
            for phase in self._phases:  # the next one must find nothing of this
                phase.state.clear()
            return None
        if changes is not None:
            logger.info(
                "continues with the weights of %s, from the beginning of the data: options or "
                "data have changed since",
                url,
            )
            return Resumed(
                url=url,
                progress=(Progress(step=point.progress.step),),
                is_exact=False,
                rules={},
            )
        logger.info("resumed from %s", url)
        return Resumed(
            url=url,
            progress=point.worker_progress or (point.progress,),
            is_exact=True,
            rules=point.folder.meta.get("rules", {}),
        )

    def _changes(self, point: ResumePoint) -> FleetRecError | None:
        """Return an error about what is not as it was when the checkpoint was written."""
        flag, url = self._run.resume.flag, url_of(point.folder)
        now = resume_signature(self._run)
        differences = signature_differences(point.folder.meta["job"], now, url=url)
        if differences:
            return ConfigError([f"{flag}: {difference}" for difference in differences])
        spec = last_pass(self._plan, point.progress)
        data = point.folder.meta["data"]  # nothing, if no pass had begun
        if spec is not None and data and data != dict(spec.fingerprint):
            return DataError(
                f"{flag}: the data files have changed since {url} was written (names or sizes); "
                f"start without {flag}, with init_model_path to keep the weights"
            )
        if not point.matches_worker_count(self._group.size):
            return CheckpointError(
                f"written by {len(point.worker_progress)} workers within an epoch, now there are "
                f"{self._group.size}"
            )
        return None

    def _load(self, point: ResumePoint, *, is_exact: bool) -> bool:
        saved = [read_phase(point.folder, phase.name) for phase in self._phases]
        for phase, its in zip(self._phases, saved, strict=True):
            phase.state.load(its, exact=True)
            if is_exact and self._rule_group.is_chief:  # which has counted for all
                phase.metrics.load_state(its.tensors[METRICS])
        return True

    def _together(self, url: str, act: Callable[[], T]) -> T | None:
        """Return what ``act`` returns if no process fails; None if one does.

        A checkpoint that does not fit the job is an error: older ones do not fit either.
        """
        result: T | None = None
        failure: CheckpointError | None = None
        try:
            result = act()
        except CheckpointError as error:
            failure = error
        self._num_gathers += 1
        texts = self._rule_group.all_gather(
            b"" if failure is None else str(failure).encode(),
            key=f"resume/{self._num_gathers}",
            pass_index=None,
        )
        if isinstance(failure, MismatchError):
            raise failure
        failed = [text.decode() for text in texts if text]
        if not failed:
            return result
        logger.warning("passed over: %s: %s", url, failed[0])
        return None


def points_by_day(folders: Sequence[str]) -> Iterator[ResumePoint]:
    """Yield the checkpoints ``<day>/<name>`` of some folders, newest first, day by day."""
    for folder in folders:
        for day in day_folders(folder):
            points = []
            for url in day_checkpoints(day):
                try:
                    points.append(open_point(url))
                except CheckpointError as error:
                    logger.warning("passed over: %s", error)
            points.sort(key=lambda p: (p.progress.step, p.progress.pass_index), reverse=True)
            yield from points


def open_point(url: str) -> ResumePoint:
    """Open a checkpoint from which a run may resume."""
    folder = open_folder(url, kind="checkpoint")
    return ResumePoint(
        folder=folder,
        progress=progress_in(folder),
        worker_progress=worker_progress_in(folder),
    )
