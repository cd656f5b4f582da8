"""Status file of a server, read by its supervisor."""

import logging
from collections.abc import Callable
from pathlib import Path

from fleetrec.core.status import Status, write_status

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0


class StatusWriter:
    """Writes calls per second and the number of pending pushes, once per interval."""

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
        self._num_pending = num_pending
        self._clock = clock
        self._last_time = clock()
        self._last_calls = 0

    def write_if_due(self) -> None:
        """Write a status if the interval has passed."""
        now, num_calls = self._clock(), self._num_calls()
        seconds = now - self._last_time
        if seconds < INTERVAL_S:
            return
        per_s = (num_calls - self._last_calls) / seconds
        try:
            write_status(self._path, Status(per_s=per_s, queue=self._num_pending()))
        except OSError as error:  # training must not fail because of a status file
            logger.warning("%s: cannot be written: %s", self._path, error)
        self._last_time, self._last_calls = now, num_calls
