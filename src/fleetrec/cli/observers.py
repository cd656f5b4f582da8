"""Observers of a run: log lines in the format of its dialect, and a list of its outputs."""

import logging

from fleetrec.config.job import RunOptions
from fleetrec.train.events import Interval, Observer, PassDone, QuietObserver, StepInfo
from fleetrec.train.observers import LogObserver, StepLogObserver
from fleetrec.train.online_log import OnlineLogObserver
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)


def log_observer(run: RunOptions) -> Observer:
    """Return the observer that writes log lines as the job's dialect has them."""
    if run.online is not None:
        return OnlineLogObserver(num_phases=len(run.phases))
    if run.log_style == "steps":
        return StepLogObserver(interval=run.print_interval)
    return LogObserver(num_phases=len(run.phases))


class OutputsObserver(QuietObserver):
    """Remembers the newest checkpoint, inference model, ... that a run has published."""

    def __init__(self) -> None:
        self._newest: dict[str, str] = {}

    def step(self, info: StepInfo) -> None:
        """Ignore steps."""

    def interval(self, interval: Interval) -> None:
        """Ignore intervals."""

    def pass_done(self, done: PassDone) -> None:
        """Ignore passes."""

    def saved(self, what: str, url: str, *, epoch: int) -> None:  # noqa: ARG002
        """Remember where it is."""
        self._newest[what] = url

    def log(self) -> None:
        """Write where the newest ones are."""
        for what, url in sorted(self._newest.items()):
            logger.info("%-16s %s", f"{what}:", url)


def log_finish(run: RunOptions, folder: RunFolder, outputs: OutputsObserver) -> None:
    """Write that a run has finished, and where its results are."""
    logger.info("Runner %s Finish", run.name)
    outputs.log()
    logger.info("logs:            %s", folder.path)
    logger.info("report:          %s", folder.report)


def how_to_continue(run: RunOptions) -> str:
    """Return how a run that was stopped continues."""
    if run.online is not None:
        return "start the same command again to continue"
    return f"resume with the same command and {run.resume.flag}"
