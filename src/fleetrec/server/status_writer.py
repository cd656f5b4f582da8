"""A server tells those who watch it how it goes."""

import logging
from collections.abc import Callable
from pathlib import Path

from fleetrec.core.status import Status, write_status

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0


class StatusWriter:
    """Writes a status now and then: calls per second, and pushes that wait for their step."""

    def __init__(
        self,
        path: Path,
        *,
        num_calls: Callable[[], int],
        num_pending: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._path = path
        self._num_calls = num_calls
        self._num_held = num_pending
        self._clock = clock
        self._time = clock()
        self._counted = 0

    def write_if_due(self) -> None:
        """Write a status, if one is due."""
        now, counted = self._clock(), self._num_calls()
        seconds = now - self._time
        if seconds < INTERVAL_S:
            return
        per_s = (counted - self._counted) / seconds
        try:
            write_status(self._path, Status(per_s=per_s, queue=self._num_held()))
        except OSError as error:  # a server does not end because nobody can watch it
            logger.warning("%s: cannot be written: %s", self._path, error)
        self._time, self._counted = now, counted
