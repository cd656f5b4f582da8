"""Runs the command of a user when an alarm begins."""

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from fleetrec.core.env import environment_with
from fleetrec.train.alarms import Alarm

logger = logging.getLogger(__name__)

TIMEOUT_S = 60.0
TAIL_CHARS = 300


class AlarmCommand:
    """Runs a command for every alarm that begins, one after the other, in a thread of its own.

    The alarm is JSON on the standard input of the command, and in the variables
    FLEETREC_ALARM_NAME, FLEETREC_ALARM_MESSAGE and FLEETREC_ALARM_PASS. A command that fails or
    takes longer than ``timeout_s`` is logged. Leaving the block waits for the commands of alarms
    that have begun.
    """

    def __init__(self, command: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> None:
        self._command = tuple(command)
        self._timeout_s = timeout_s
        self._alarms: queue.SimpleQueue[Alarm | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="fleetrec-alarms", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._alarms.put(None)
        self._thread.join(self._timeout_s + 1)  # the thread ends with the process if it hangs

    def report(self, alarm: Alarm) -> None:
        """Run the command for an alarm that begins; returns at once."""
        if self._command and not alarm.is_over:
            self._alarms.put(alarm)

    def _work(self) -> None:
        while (alarm := self._alarms.get()) is not None:
            problem = self._run(alarm)
            if problem is not None:
                logger.warning("command of alarm %s: %s %s", alarm.name, self._command[0], problem)

    def _run(self, alarm: Alarm) -> str | None:
        """Run the command; returns what went wrong."""
        variables = {
            "FLEETREC_ALARM_NAME": alarm.name,
            "FLEETREC_ALARM_MESSAGE": alarm.message,
            "FLEETREC_ALARM_PASS": alarm.pass_name,
        }
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment_with(variables, unless_set={}),
                start_new_session=True,
                text=True,
                errors="replace",
            )
        except (OSError, ValueError) as error:
            return f"cannot be started: {error}"
        with process:
            try:
                _, errors = process.communicate(
                    json.dumps(alarm.to_plain()) + "\n", timeout=self._timeout_s
                )
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):  # the command, and what it started
                    os.killpg(process.pid, signal.SIGKILL)
                return f"was ended after {self._timeout_s:g} s"
        if process.returncode != 0:
            return f"ended with exit code {process.returncode}: {errors.strip()[-TAIL_CHARS:]}"
        return None
