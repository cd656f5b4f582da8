"""Ctrl-C and SIGTERM ask a run to save and stop; a second one ends it at once."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class StopRequest:
    """While the block runs, the first signal is noted instead of raised.

    Only the main thread of a process can do that; in another thread signals act as before.
    """

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}

    def is_requested(self) -> bool:
        """Return whether a signal was received."""
        return self._requested

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
