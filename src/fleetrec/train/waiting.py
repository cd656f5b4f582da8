"""How a plan waits for the data of a pass, and what it reports meanwhile."""

import dataclasses
import logging
import time
from collections.abc import Callable

from fleetrec.parallel.group import Group
from fleetrec.parallel.wait_on_chief import wait_on_chief
from fleetrec.train.context import StopRequestedError

logger = logging.getLogger(__name__)

PAUSE_S = 0.5  # a run that is to stop notices it this soon
REPORT_S = 60.0  # between two lines about data that is not there

OnWaiting = Callable[[str, float], None]


def ignore_waiting(_what: str, _seconds: float) -> None:
    """Do nothing while data is waited for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Waiting:
    """Clock, pause and stop flag of a wait; ``on_waiting`` gets the pass and the seconds so far."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    should_stop: Callable[[], bool] = lambda: False
    on_waiting: OnWaiting = ignore_waiting

    def wait(
        self, group: Group, poll: Callable[[], str | None], *, pass_index: int, poll_s: float
    ) -> str:
        """Return on every process what ``poll`` of the chief returns, once that is not None.

        Raises StopRequestedError if the run is to stop meanwhile.
        """
        found = wait_on_chief(
            group,
            poll,
            key="pass",
            pass_index=pass_index,
            pause=lambda: self.sleep(min(PAUSE_S, poll_s)),
            clock=self.clock,
            should_stop=self.should_stop,
        )
        if found is None:
            raise StopRequestedError
        return found


class WaitReport:
    """Reports what the pass ``name`` waits for, at once and every minute."""

    def __init__(self, waiting: Waiting, name: str) -> None:
        self._waiting = waiting
        self._name = name
        self._begin = waiting.clock()
        self._last: float | None = None

    @property
    def waited_s(self) -> float:
        """Return the seconds since the wait began."""
        return self._waiting.clock() - self._begin

    def report(self, missing: str) -> None:
        """Report what is missing."""
        waited_s = self.waited_s
        self._waiting.on_waiting(self._name, waited_s)
        if self._last is None or waited_s - self._last >= REPORT_S:
            self._last = waited_s
            logger.info("waiting for pass %s (%.0f s): %s", self._name, waited_s, missing)
