"""Where log lines go: the terminal (above the progress bar) and the file of the run."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from fleetrec.core.errors import FleetRecError

FORMAT = "%(asctime)s - %(levelname)s: %(message)s"


class _ConsoleHandler(logging.Handler):
    """Prints plain lines through rich, so that a live progress bar stays below them."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.out(self.format(record), highlight=False)


def shared_console() -> Console:
    """Return the console that log lines and progress bar have to share."""
    from rich import get_console

    return get_console()


@contextlib.contextmanager
def console_logging() -> Iterator[None]:
    """Show the package's log lines while the block runs."""
    handler: logging.Handler = logging.StreamHandler(sys.stdout)
    if sys.stdout.isatty():
        handler = _ConsoleHandler(shared_console())
    with _attached(handler):
        yield


@contextlib.contextmanager
def run_log(path: Path) -> Iterator[None]:
    """Append the package's log lines to a file while the block runs."""
    handler = logging.FileHandler(path, encoding="utf-8")
    with _attached(handler):
        try:
            yield
        except (FleetRecError, OSError) as error:  # main prints it
            handler.handle(logging.makeLogRecord({"levelname": "ERROR", "msg": str(error)}))
            raise


@contextlib.contextmanager
def _attached(handler: logging.Handler) -> Iterator[None]:
    package = logging.getLogger("fleetrec")
    handler.setFormatter(logging.Formatter(FORMAT))
    before = package.level
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    try:
        yield
    finally:
        package.setLevel(before)
        package.removeHandler(handler)
        handler.close()
