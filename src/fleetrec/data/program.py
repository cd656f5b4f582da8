"""Run a user's program that turns the bytes of a file into text, and clean up after it."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self, cast

from fleetrec.core.errors import DataError
from fleetrec.data.files import DataFile, storage_errors
from fleetrec.data.text import decompressed

CHUNK_BYTES = 1 << 20
TAIL_BYTES = 600
GRACE_S = 5.0  # for a program to exit after SIGTERM, or after closing its output
POLL_S = 0.01


class Program:
    """A shell command in a process group of its own; leaving the block ends the whole group.

    A file is written to its input by a thread, decompressed if its name ends in ``.gz``. A program
    need not read all of it.
    """

    def __init__(self, command: str, file: DataFile) -> None:
        self._command = command
        self._file = file
        self._failure: DataError | None = None
        self._num_fed = 0  # stored bytes of the file
        self._said = b""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._threads = [
            threading.Thread(target=work, name=self.name, daemon=True)
            for work in (self._feed, self._listen)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        for thread in self._threads:
            thread.join(GRACE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def buffers(self) -> Iterator[tuple[bytes, int]]:
        """Yield the output in buffers, and how many stored bytes of the file are used so far.

        Raises DataError if the program or its input fails.
        """
        output = cast(IO[bytes], self._process.stdout)
        while buffer := output.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
            yield buffer, self._num_fed
        has_ended = self._wait(GRACE_S)
        self._stop()
        if self._failure is not None:
            raise self._failure
        if not has_ended:
            raise DataError(
                f"{self._file.path}: {self.name} closed its output but did not end within "
                f"{GRACE_S:g} s{self._last_words()}"
            )
        if self._process.returncode != 0:
            raise DataError(f"{self._file.path}: {self.name} {self._ending()}{self._last_words()}")

    @property
    def name(self) -> str:
        """Return how the program is called in messages."""
        return f"pipe_command {self._command!r}"

    def _feed(self) -> None:
        stdin = cast(IO[bytes], self._process.stdin)
        try:
            with storage_errors(self._file.path, doing="read"), self._file.open() as raw:
                stream = decompressed(self._file, raw)
                while buffer := stream.read(CHUNK_BYTES):
                    try:
                        stdin.write(buffer)
                    except BrokenPipeError:
                        return  # it has read enough
                    self._num_fed = raw.tell()
        except DataError as error:
            self._failure = error
            self._signal(signal.SIGTERM)  # its output for half a file is useless
        finally:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()

    def _stop(self) -> None:
        """Stop all processes of the group, SIGTERM first, and reap the first one."""
        if self._process.returncode is not None:
            return
        if not self._wait(0):
            self._signal(signal.SIGTERM)
            self._wait(GRACE_S)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _wait(self, timeout_s: float) -> bool:
        """Return whether the first process exits in time; not reaped, it keeps the group's id."""
        until = time.monotonic() + timeout_s
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._process.pid, options) is None:
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        return True

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _ending(self) -> str:
        code = self._process.returncode
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def _listen(self) -> None:
        with cast(IO[bytes], self._process.stderr) as errors:
            while buffer := errors.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
                self._said = (self._said + buffer)[-TAIL_BYTES:]

    def _last_words(self) -> str:
        self._threads[1].join(GRACE_S)
        lines = self._said.decode(errors="replace").split("\n")
        words = " | ".join(line.strip() for line in lines if line.strip())
        return f"; it said: {words}" if words else "; it said nothing"
